"""From the ``[data]`` section to samples that fit the model. Imports torch only when a set is opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from paceline.data.sets import data_home, known_names, made_samples
from paceline.data.spec import DataSpec
from paceline.errors import DataError, FileError, UnknownNameError
from paceline.model.spec import InputSpec, TargetSpec, show_shape

if TYPE_CHECKING:
    from torch import Tensor

    from paceline.data.samples import RawSet


class Samples(Protocol):
    """A set of numbered samples, fetched a whole batch at a time."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return (inputs, targets) of these samples, in this order."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DataSource:
    """A training set, perhaps a validation set, and how many classes they have."""

    name: str
    train: Samples
    validation: Samples | None
    classes: int


def count_samples(
    spec: DataSpec,
    inputs: InputSpec,
    targets: TargetSpec,
    where: str | Path = "job",
    base: Path = Path(),
) -> int:
    """Return how many samples an epoch trains; real data is opened to be counted, made-up data is not made."""
    if spec.name == "synthetic":
        return made_samples(inputs) if spec.samples is None else spec.samples
    return len(load_data(spec, inputs, targets, where, base).train)


def load_data(
    spec: DataSpec,
    inputs: InputSpec,
    targets: TargetSpec,
    where: str | Path = "job",
    base: Path = Path(),
) -> DataSource:
    """Return the set that a job names, checked against what the model takes.

    Relative paths are taken from ``base``, the job file's folder. Every worker that calls this with the same
    arguments gets the same samples in the same order.
    """
    kind, colon, rest = spec.name.partition(":")
    if colon and not rest:
        raise FileError(where, "data.name", f"is {spec.name!r}, needs something after the colon")
    path = base / Path(rest).expanduser()
    match kind, bool(colon):
        case "synthetic", False:
            from paceline.data.synthetic import synthetic

            # Random labels say nothing about accuracy: no validation set.
            train = synthetic(inputs, targets, spec.samples, spec.seed)
            return DataSource(spec.name, train, None, targets.classes)
        case (("digits" | "mnist" | "fashion-mnist"), False):
            _need_images(spec.name, inputs, targets, where)
            raw = _named(kind, inputs, where)
        case (("idx" | "cifar10" | "folder"), True):
            _need_images(spec.name, inputs, targets, where)
            raw = _images(kind, path, inputs)
        case "synthetic", True:
            from paceline.data.synthetic import read_synthetic

            raw = read_synthetic(path, inputs, targets, where)
        case "text", True:
            from paceline.data.text import read_text

            raw = read_text(path, spec, inputs, targets, where)
        case _, True:
            from paceline.data.custom import read_custom

            raw = read_custom(spec.name, inputs, targets, where, base)
        case _:
            what = UnknownNameError("data set", spec.name, known_names(), "`paceline data list`").what
            raise FileError(where, "data.name", what)
    return _fitted(raw, spec, inputs, targets, where)


def _named(kind: str, inputs: InputSpec, where: str | Path) -> RawSet:
    if kind == "digits":
        from paceline.data.digits import read_digits

        return read_digits(inputs.shape)
    from paceline.data.idx import read_idx_folder

    folder = data_home() / kind
    if not any(folder.glob("train-images*")):
        what = f"{kind} is not on this machine (looked in {folder}); run `paceline data fetch {kind}`"
        raise DataError(f"{where}: data.name: {what}")
    return read_idx_folder(folder, kind)


def _images(kind: str, path: Path, inputs: InputSpec) -> RawSet:
    if kind == "idx":
        from paceline.data.idx import read_idx_folder

        return read_idx_folder(path)
    if kind == "cifar10":
        from paceline.data.cifar import read_cifar10

        return read_cifar10(path)
    from paceline.data.folder import read_folder

    return read_folder(path, inputs.shape)


def _need_images(name: str, inputs: InputSpec, targets: TargetSpec, where: str | Path) -> None:
    if inputs.dtype != "float32" or targets.kind != "class" or len(inputs.shape) != 3:
        what = f"{name} has images in classes, but the model takes {inputs}; choose another model or data set"
        raise FileError(where, "data.name", what)


def _fitted(raw: RawSet, spec: DataSpec, inputs: InputSpec, targets: TargetSpec, where: str | Path) -> DataSource:
    from paceline.data.samples import cap, split

    if raw.shape != inputs.shape:
        found, wanted = show_shape(raw.shape), show_shape(inputs.shape)
        what = f"{spec.name} has samples of {found}, but the model takes {wanted}"
        raise FileError(where, "data.name", f"{what}; set model.input or model.variant")
    if raw.classes > targets.classes:
        what = f"{spec.name} has {raw.classes} classes, but the model only {targets.classes}; set model.classes"
        raise FileError(where, "data.name", what)
    train, validation = raw.train, raw.validation
    if validation is None:
        train, validation = split(train, spec.validation, spec.seed)
    return DataSource(spec.name, cap(train, spec.samples, spec.seed), validation, raw.classes)
