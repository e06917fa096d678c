"""The names that ``data.name`` understands, and where fetched sets live. No torch here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from paceline.model.spec import InputSpec
from paceline.model.variant import variant_of_shape

DEFAULT_SAMPLES = 10 * 1024


@dataclass(frozen=True, slots=True)
class NamedSet:
    """One line of ``paceline data list``: a name, what it is, how to get it."""

    name: str
    what: str
    how: str


SETS: tuple[NamedSet, ...] = (
    NamedSet("synthetic", "random samples of the model's own shape, made on the fly", "nothing to get"),
    NamedSet("synthetic:PATH", "the same, read from disk", "paceline data write PATH --set model.name=..."),
    NamedSet("digits", "1,797 handwritten digits of 8 x 8, resized", "pip install scikit-learn"),
    NamedSet("mnist", "70,000 handwritten digits of 28 x 28", "paceline data fetch mnist"),
    NamedSet("fashion-mnist", "70,000 pieces of clothing of 28 x 28", "paceline data fetch fashion-mnist"),
    NamedSet("idx:PATH", "a folder of IDX files, gzipped or not", "files named as MNIST's"),
    NamedSet("cifar10:PATH", "60,000 photographs of 32 x 32", "the binary version's folder of .bin files"),
    NamedSet("folder:PATH", "an image folder, resized to the model", "PATH/train/CLASS/*.jpg, PATH/val/..."),
    NamedSet("text:PATH", "a text file by bytes, for token models", "any file; the vocabulary is 256"),
    NamedSet("file.py:dataset", "a function of yours returning a Dataset", "or pkg.module:dataset"),
)


def made_samples(inputs: InputSpec) -> int:
    """Return how many samples a synthetic set has unless told: as many as the variant of that shape."""
    variant = variant_of_shape(inputs.shape) if inputs.vocabulary is None else None
    return variant.samples if variant is not None else DEFAULT_SAMPLES


def known_names() -> list[str]:
    """Return the names without their arguments, for error messages."""
    return sorted({entry.name.partition(":")[0] for entry in SETS if not entry.name.startswith("file.py")})


def data_home() -> Path:
    """Return the folder of fetched sets: ``$PACELINE_DATA``, or one in the user's cache."""
    chosen = os.environ.get("PACELINE_DATA")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "paceline" / "data"


def here(name: str) -> bool | None:
    """Return whether a set is on this machine; None for names that take a path, which only the user can tell."""
    if ":" in name:
        return None
    if name == "digits":
        return find_spec("sklearn") is not None
    return name == "synthetic" or any((data_home() / name).glob("train-images*"))
