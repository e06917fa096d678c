"""The door for files: sections that forbid unknown keys, and errors that name the file and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails

from paceline.errors import FileError, suggestion
from paceline.units import parse_bandwidth, parse_bytes, parse_price, parse_seconds

Bandwidth = Annotated[float, BeforeValidator(parse_bandwidth)]
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Price = Annotated[tuple[float, str], BeforeValidator(parse_price)]
Count = Annotated[int, Field(ge=1, le=1 << 40)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

T = TypeVar("T")


class Section(BaseModel):
    """A table of a file: frozen, typed strictly, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file; a missing or malformed file is a :class:`FileError`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileError(path, "", "there is no such file") from None
    except IsADirectoryError:
        raise FileError(path, "", "is a folder, not a file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(path, "", f"cannot be read as UTF-8 text ({error})") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(path, "", f"is not valid TOML: {str(error)[0].lower()}{str(error)[1:]}") from None


def check(kind: type[T], data: object, where: str | Path, prefix: str = "") -> T:
    """Return ``data`` as a ``kind``; raise a :class:`FileError` that names the first wrong key.

    >>> class Train(Section):
    ...     epochs: Count = 1
    >>> check(Train, {"epoch": 3}, "job.toml", "train")
    Traceback (most recent call last):
    ...
    paceline.errors.FileError: job.toml: train.epoch: is not a known key; did you mean 'epochs'?
    """
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        key, what = explain(error, kind)
        raise FileError(where, ".".join(part for part in (prefix, key) if part), what) from None


def explain(error: ValidationError, kind: object) -> tuple[str, str]:
    """Return (key, sentence) for the first problem of a validation error; unknown keys come first."""
    problems = error.errors(include_url=False)
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path = [str(part) for part in problem["loc"] if not str(part).startswith("function-")]
    key = ".".join(path)
    match problem["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return key, f"is not a known key{suggestion(path[-1], _known_keys(kind, path[:-1]))}"
        case "missing" | "missing_argument":
            return key, "is missing"
        case "value_error":
            return key, str(problem["ctx"]["error"])
        case "model_type" | "dataclass_type" | "dict_type":
            return key, f"is {_shown(problem['input'])}, must be a table"
        case "literal_error":
            return key, f"is {_shown(problem['input'])}, must be {problem['ctx']['expected']}"
        case "list_type" | "tuple_type" if isinstance(problem["input"], Mapping):
            return key, f"is one table, must be a list of tables: write [[{path[-1]}]]"
        case kind_of_problem if kind_of_problem in _KINDS:
            return key, f"is {_shown(problem['input'])}, must be {_KINDS[kind_of_problem]}"
        case kind_of_problem if kind_of_problem in _BOUNDS:
            word, name = _BOUNDS[kind_of_problem]
            bound = problem["ctx"][name]
            shown = f"{bound:g}" if isinstance(bound, float) else str(bound)
            return key, f"is {_shown(problem['input'])}, must be {word} {shown}"
        case _:
            text = problem["msg"].replace("Input should be", "must be").replace("Value should", "must")
            return key, f"is {_shown(problem['input'])}, {text[0].lower()}{text[1:]}"


def wrong_key(key: str, value: object, what: str) -> ValidationError:
    """Return what a section's validator raises to name a key of its own; a ValueError would lose it."""
    details = InitErrorDetails(type="value_error", loc=(key,), input=value, ctx={"error": ValueError(what)})
    return ValidationError.from_exception_data("section", [details])


# pydantic's kinds of problems, in the words of someone who writes a TOML file.
_KINDS = {
    "string_type": "a text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list in square brackets",
    "tuple_type": "a list in square brackets",
    "string_too_short": "a text that is not empty",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
    "too_short": ("a list of at least", "min_length"),
    "string_too_long": ("a text of at most", "max_length"),
}


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."


def _known_keys(kind: object, path: list[str]) -> list[str]:
    """Follow ``path`` through nested sections to the one that refused a key."""
    for part in path:
        fields: Mapping[str, Any] = getattr(kind, "model_fields", {})
        if part not in fields:
            break
        annotation = fields[part].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        kind = next((option for option in options if hasattr(option, "model_fields")), None)
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", {})
    return [str(field.alias or name) if hasattr(field, "alias") else name for name, field in fields.items()]
