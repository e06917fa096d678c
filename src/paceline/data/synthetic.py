"""Random samples of a model's own shape: from a small pool in memory, or written to disk once and mapped.

For measuring speed. A pool holds a few dozen samples with fixed targets, so a model can learn it by heart
and a falling loss shows that training works; accuracy on it means nothing.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from paceline.artefact import Artefact, load, save
from paceline.data.masking import mask
from paceline.data.samples import Pixels, RawSet, TensorSamples
from paceline.data.sets import made_samples
from paceline.errors import DataError, FileError
from paceline.model.spec import InputSpec, TargetSpec
from paceline.units import MEBI, format_bytes

_POOL_BYTES, _POOL_MOST, _POOL_LEAST = 32 * MEBI, 1024, 8
_CHUNK_BYTES = 64 * MEBI
_HEADER, _INPUTS, _TARGETS = "synthetic.json", "inputs.bin", "targets.bin"
_BYTE_PIXELS = Pixels((0.5,), (0.289,))  # mean and spread of evenly distributed bytes


class PooledSamples:
    """``count`` samples that are a pool of fewer, over and over: sample i is number i modulo the pool."""

    def __init__(self, inputs: Tensor, targets: Tensor, count: int) -> None:
        self._inputs, self._targets, self._count = inputs, targets, count

    def __len__(self) -> int:
        return self._count

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these samples, in this order."""
        slots = indices % len(self._targets)
        return self._inputs[slots], self._targets[slots]


def synthetic(inputs: InputSpec, targets: TargetSpec, samples: int | None, seed: int) -> PooledSamples:
    """Return random samples made on the fly; by default as many as the variant of that shape has."""
    samples = made_samples(inputs) if samples is None else samples
    size = _sample_bytes(inputs, 4)
    pool = min(samples, max(_POOL_LEAST, min(_POOL_MOST, _POOL_BYTES // size)))
    generator = torch.Generator().manual_seed(seed)
    if inputs.vocabulary is None:
        made = torch.randn((pool, *inputs.shape), generator=generator)
        return PooledSamples(made, _classes(pool, targets, generator), samples)
    return PooledSamples(*_tokens(pool, 0, inputs, targets, generator, seed=seed), samples)


@dataclass(frozen=True, slots=True)
class SyntheticHeader(Artefact):
    """What the two raw files of a synthetic set hold: bytes (images) or int64 (tokens), and int64 targets."""

    kind = "synthetic-data"
    shape: tuple[int, ...]
    vocabulary: int | None
    target_kind: str
    classes: int
    samples: int


def write_synthetic(path: str | Path, inputs: InputSpec, targets: TargetSpec, samples: int, seed: int = 0) -> Path:
    """Write a synthetic set as a folder and return its path; it replaces an earlier set, and nothing else."""
    path = Path(path)
    if path.exists() and not (path / _HEADER).is_file():
        raise FileError(path, "", "exists and is not a synthetic set; choose another path or remove it")
    each = _sample_bytes(inputs, 1)
    needed = samples * (each + 8 * (inputs.shape[0] if targets.kind == "tokens" else 1))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(path, "", f"cannot be made ({error.strerror or error}); choose another path") from None
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise DataError(f"{path}: the set needs {format_bytes(needed)}, but only {format_bytes(free)} are free there")
    aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        generator = torch.Generator().manual_seed(seed)
        with (aside / _INPUTS).open("wb") as input_file, (aside / _TARGETS).open("wb") as target_file:
            chunk = max(1, _CHUNK_BYTES // each)
            for first in range(0, samples, chunk):
                count = min(chunk, samples - first)
                if inputs.vocabulary is None:
                    made = torch.randint(256, (count, *inputs.shape), dtype=torch.uint8, generator=generator)
                    labels = _classes(count, targets, generator)
                else:
                    made, labels = _tokens(count, first, inputs, targets, generator, seed=seed)
                made.numpy().tofile(input_file)
                labels.numpy().tofile(target_file)
        header = SyntheticHeader(inputs.shape, inputs.vocabulary, targets.kind, targets.classes, samples)
        save(header, aside / _HEADER)
        aside.chmod(0o755)
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            path.rename(old / path.name)
            aside.rename(path)
            shutil.rmtree(old)
        else:
            aside.rename(path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return path


def read_synthetic(path: Path, inputs: InputSpec, targets: TargetSpec, where: str | Path) -> RawSet:
    """Return a set that :func:`write_synthetic` wrote, mapped rather than read."""
    if not (path / _HEADER).is_file():
        raise DataError(f"{path}: is not a synthetic set (there is no {_HEADER} in it)")
    header = load(SyntheticHeader, path / _HEADER)
    if header.vocabulary != inputs.vocabulary or header.target_kind != targets.kind:
        found = InputSpec(header.shape, "float32" if header.vocabulary is None else "int64", header.vocabulary)
        what = f"{path} was written for {found} and {header.target_kind} targets, but the model takes {inputs}"
        raise FileError(where, "data.name", f"{what}; write it again for this model")
    dtype = torch.uint8 if header.vocabulary is None else torch.int64
    made = _mapped(path / _INPUTS, (header.samples, *header.shape), dtype)
    shape = (header.samples, *header.shape) if header.target_kind == "tokens" else (header.samples,)
    labels = _mapped(path / _TARGETS, shape, torch.int64)
    pixels = _BYTE_PIXELS if header.vocabulary is None else None
    return RawSet(header.shape, header.classes, TensorSamples(made, labels, pixels))


def _mapped(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    count = math.prod(shape)
    found = path.stat().st_size if path.is_file() else 0
    if found != count * dtype.itemsize:
        raise DataError(f"{path}: has {found} bytes, but its header needs {count * dtype.itemsize}; write it again")
    return torch.from_file(str(path), shared=False, size=count, dtype=dtype).reshape(shape)


def _sample_bytes(inputs: InputSpec, image_itemsize: int) -> int:
    return math.prod(inputs.shape) * (image_itemsize if inputs.vocabulary is None else 8)


def _classes(count: int, targets: TargetSpec, generator: torch.Generator) -> Tensor:
    return torch.randint(targets.classes, (count,), generator=generator)


def _tokens(
    count: int, first: int, inputs: InputSpec, targets: TargetSpec, generator: torch.Generator, *, seed: int
) -> tuple[Tensor, Tensor]:
    """Return random tokens and what they are scored on; ``first`` is the number of the first sample."""
    assert inputs.vocabulary is not None
    (length,) = inputs.shape
    tokens = torch.randint(inputs.vocabulary, (count, length + 1), generator=generator)
    if targets.kind == "class":
        return tokens[:, :-1].contiguous(), _classes(count, targets, generator)
    if targets.masked:
        whole = tokens[:, :-1].contiguous()
        numbers = torch.arange(first, first + count)
        return mask(whole, numbers, inputs.vocabulary - 1, seed), whole % targets.classes
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous() % targets.classes
