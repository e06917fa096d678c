"""Where a model comes from: one :class:`ModelSource` for the suite's networks and for a user's own.

Nothing here imports torch until a model is built, fed or scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import FileError, UnknownNameError
from paceline.model.spec import InputSpec, ModelSpec, TargetSpec, parse_input, show_shape
from paceline.model.suite import SUITE, SuiteModel, suite_factory
from paceline.model.variant import VARIANTS

if TYPE_CHECKING:
    from torch import Tensor, nn

LossFunction = Callable[[Any, "Tensor"], "Tensor"]


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of scores ``[..., classes]`` against class numbers ``[...]``."""
    from torch.nn import functional

    return functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))


@dataclass(frozen=True, slots=True)
class ModelSource:
    """How to build a model, feed it and score it.

    ``build`` makes a new model at every call, from torch's global random state: seed it for equal weights.
    """

    name: str
    family: str
    inputs: InputSpec
    targets: TargetSpec
    factory: Callable[[], nn.Module]
    loss_function: LossFunction = cross_entropy

    def build(self) -> nn.Module:
        """Return a new model with fresh weights (fake or meta ones under FakeTensorMode or a meta device)."""
        return self.factory()

    def example(self, batch: int, seed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return random inputs and targets on the CPU; the same for the same seed."""
        import torch

        generator = None if seed is None else torch.Generator().manual_seed(seed)
        shape = (batch, *self.inputs.shape)
        if self.inputs.vocabulary is None:
            inputs = torch.randn(shape, generator=generator, device="cpu")
        else:
            inputs = torch.randint(self.inputs.vocabulary, shape, generator=generator, device="cpu")
        wanted = shape if self.targets.kind == "tokens" else shape[:1]
        return inputs, torch.randint(self.targets.classes, wanted, generator=generator, device="cpu")

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch as a scalar."""
        return self.loss_function(outputs, targets)


def load_model(spec: ModelSpec, where: str | Path = "job", base: Path = Path()) -> ModelSource:
    """Return the model that a job names; relative paths are taken from ``base``, the job file's folder."""
    if spec.classes is not None and spec.classes < 1:
        raise FileError(where, "model.classes", f"is {spec.classes}, must be at least 1")
    if ":" in spec.name:
        from paceline.model.factory import user_model

        return user_model(spec, where, base)
    if spec.name.endswith(".py") or "/" in spec.name:
        raise FileError(where, "model.name", f"is {spec.name!r}, needs the factory's name: '{spec.name}:build'")
    entry = SUITE.get(spec.name)
    if entry is None:
        what = UnknownNameError("model", spec.name, SUITE, "`paceline models`").what
        raise FileError(where, "model.name", f"{what}; a model of your own is 'file.py:factory'")
    if entry.size is not None:
        style, inputs, targets = None, *_transformer_shapes(entry, spec, where)
    else:
        style, inputs, targets = _image_shapes(entry, spec, where)
    loss_function: LossFunction = cross_entropy
    if spec.loss is not None:
        from paceline.model.factory import load_loss

        loss_function = load_loss(spec.loss, where, base)
    factory = suite_factory(entry, style, inputs, targets)
    return ModelSource(spec.name, entry.family, inputs, targets, factory, loss_function)


def read_input(text: str, where: str | Path) -> InputSpec:
    """Return a job's ``input``; a :class:`FileError` names the key."""
    try:
        return parse_input(text)
    except ValueError as error:
        raise FileError(where, "model.input", str(error)) from None


def _transformer_shapes(entry: SuiteModel, spec: ModelSpec, where: str | Path) -> tuple[InputSpec, TargetSpec]:
    size = entry.size
    assert size is not None
    for key, value in (("variant", spec.variant), ("classes", spec.classes)):
        if value is not None:
            raise FileError(where, f"model.{key}", f"is {value!r}, but {entry.name} has none; remove the key")
    length = size.context
    if spec.input is not None:
        found = read_input(spec.input, where)
        # "tokens:512x50257" is welcome too, if the vocabulary is the network's own.
        if len(found.shape) != 1 or found.vocabulary not in (None, size.vocabulary):
            raise FileError(
                where,
                "model.input",
                f"is {spec.input!r}, must be a length such as '{size.context}' for {entry.name}",
            )
        length = found.shape[0]
    if length > size.context:
        raise FileError(where, "model.input", f"is {length}, but {entry.name} reads at most {size.context} tokens")
    targets = TargetSpec("tokens", size.vocabulary, masked=entry.family == "bert")
    return InputSpec((length,), "int64", size.vocabulary), targets


def _image_shapes(entry: SuiteModel, spec: ModelSpec, where: str | Path) -> tuple[str, InputSpec, TargetSpec]:
    """Return (variant whose form is built, inputs, targets); ``input`` and ``classes`` override its own."""
    style = spec.variant or entry.default
    assert style is not None
    if style not in VARIANTS:
        raise FileError(where, "model.variant", UnknownNameError("variant", style, VARIANTS).what)
    variant = VARIANTS[style]
    inputs = InputSpec(variant.shape, "float32")
    if spec.input is not None:
        inputs = read_input(spec.input, where)
        if inputs.vocabulary is not None or (len(inputs.shape) != 3 and entry.name != "mlp"):
            raise FileError(
                where,
                "model.input",
                f"is {spec.input!r}, must be channels x height x width such as '3x32x32'",
            )
        smallest = entry.smallest // 2 if style == "mnist" else entry.smallest
        if min(inputs.shape[1:], default=smallest) < smallest:
            shown = show_shape(inputs.shape)
            raise FileError(
                where, "model.input", f"is {shown}, but {entry.name} needs at least {smallest} pixels a side"
            )
    return style, inputs, TargetSpec("class", spec.classes or variant.classes)
