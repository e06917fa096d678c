"""A user's own model: a factory without arguments, tried on a fake batch before anything is planned.

The trial finds what a job file need not say (how many classes, one a sample or one a position) and turns
what would fail in a worker at midnight into a sentence now. It runs on fake tensors, so a model larger than
this machine's memory is tried too; models that fake tensors cannot follow are tried for real.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from paceline.errors import FileError
from paceline.model.importing import call, in_one_line, load_callable, source_file
from paceline.model.source import LossFunction, ModelSource, cross_entropy, read_input
from paceline.model.spec import InputSpec, ModelSpec, TargetSpec, show_shape

if TYPE_CHECKING:
    from torch import nn
    from torch._subclasses.fake_tensor import FakeTensorMode

_BATCH = 2  # the least that batch norm accepts


def load_loss(reference: str, where: str | Path, base: Path) -> LossFunction:
    """Return a user's loss: a function of (outputs, targets)."""
    return load_callable(reference, where, "model.loss", base)  # type: ignore[return-value]


def user_model(spec: ModelSpec, where: str | Path, base: Path) -> ModelSource:
    """Return the source of ``pkg.module:factory`` or ``file.py:factory``, tried on a batch of two."""
    if spec.variant is not None:
        raise FileError(where, "model.variant", "is for the suite's models; give model.input for your own")
    if spec.input is None:
        raise FileError(
            where,
            "model.input",
            "is missing; a model of your own needs one, such as '3x224x224' or 'tokens:512x50257'",
        )
    inputs = read_input(spec.input, where)
    import torch

    # Importing, building and trying must not decide which numbers the training run draws.
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        return _tried(spec, inputs, where, base)


def _tried(spec: ModelSpec, inputs: InputSpec, where: str | Path, base: Path) -> ModelSource:
    from torch._subclasses.fake_tensor import FakeTensorMode

    function = load_callable(spec.name, where, "model.name", base)
    loss_function = cross_entropy if spec.loss is None else load_loss(spec.loss, where, base)

    def factory() -> nn.Module:
        return _module(function, spec.name, where)

    fake = FakeTensorMode(allow_non_fake_inputs=True)  # a factory may hand out weights it already has
    outputs = _trial(factory, inputs, fake, spec, where)
    targets = _targets(outputs, inputs, spec, where)
    source = ModelSource(spec.name, "user", inputs, targets, factory, loss_function)
    if spec.loss is not None:
        _try_loss(source, outputs, fake, spec.loss, where)
    return source


def _module(function: Callable[..., object], reference: str, where: str | Path) -> nn.Module:
    from torch import nn

    made = call(function, reference, where, "model.name")
    if not isinstance(made, nn.Module):
        what = f"{reference} returns something of type {type(made).__name__}, must return a torch.nn.Module"
        raise FileError(where, "model.name", what)
    return made


def _trial(
    factory: Callable[[], nn.Module],
    inputs: InputSpec,
    fake: FakeTensorMode,
    spec: ModelSpec,
    where: str | Path,
) -> Any:
    """Return the model's output for a batch of two."""
    try:
        with _silent(), fake:
            return _forward(factory(), inputs)
    except Exception:
        # A factory that reads weights, a forward that looks at values: only a real run can tell.
        model = factory()
    try:
        return _forward(model, inputs)
    except Exception as error:
        shown = in_one_line(error, source_file(type(model).forward))
        what = f"{spec.name} fails on {_BATCH} such samples with {shown}"
        raise FileError(where, "model.input", f"is {spec.input}, and {what}") from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep torch from logging what fails on fake tensors: it is tried again, and then told in a sentence."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _forward(model: nn.Module, inputs: InputSpec) -> Any:
    import torch

    shape = (_BATCH, *inputs.shape)
    vocabulary = inputs.vocabulary
    batch = torch.randn(shape) if vocabulary is None else torch.randint(vocabulary, shape)
    training = model.training
    try:
        return model.eval()(batch)
    finally:
        model.train(training)


def _targets(outputs: Any, inputs: InputSpec, spec: ModelSpec, where: str | Path) -> TargetSpec:
    import torch

    kind: Literal["class", "tokens"] = "class" if inputs.vocabulary is None else "tokens"
    if spec.loss is not None and spec.classes is not None:
        if isinstance(outputs, torch.Tensor) and outputs.dim() == 2:
            kind = "class"
        return TargetSpec(kind, spec.classes)
    remedy = "return class scores as one tensor, or give model.loss and model.classes"
    if not isinstance(outputs, torch.Tensor):
        raise FileError(
            where, "model.name", f"{spec.name} returns something of type {type(outputs).__name__}; {remedy}"
        )
    shape = tuple(outputs.shape)
    wanted = f"{_BATCH}xCLASSES"
    if kind == "tokens":
        wanted = f"{_BATCH}x{inputs.shape[0]}xCLASSES or {wanted}"
    if len(shape) == 2 and shape[0] == _BATCH:
        kind = "class"
    elif not (kind == "tokens" and len(shape) == 3 and shape[:2] == (_BATCH, *inputs.shape)):
        what = f"{spec.name} returns {show_shape(shape)} for {_BATCH} samples, not {wanted}; {remedy}"
        raise FileError(where, "model.name", what)
    if not outputs.is_floating_point():
        what = f"{spec.name} returns {outputs.dtype}, not floating-point scores; {remedy}"
        raise FileError(where, "model.name", what)
    if spec.classes is not None and spec.classes > shape[-1]:
        what = f"is {spec.classes}, but {spec.name} scores only {shape[-1]} classes; lower it"
        raise FileError(where, "model.classes", what)
    return TargetSpec(kind, spec.classes or shape[-1])


def _try_loss(source: ModelSource, outputs: Any, fake: FakeTensorMode, reference: str, where: str | Path) -> None:
    """See that a user's loss takes the model's output and gives one number."""
    import torch

    try:
        with _silent(), fake:
            loss = source.loss(outputs, source.example(_BATCH, seed=0)[1])
    except Exception:
        try:  # for real, as the model was
            loss = source.loss(_forward(source.build(), source.inputs), source.example(_BATCH, seed=0)[1])
        except Exception as error:
            shown = in_one_line(error, source_file(source.loss_function))
            what = f"{reference} fails on the model's output with {shown}"
            raise FileError(where, "model.loss", what) from error
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
        is_tensor = isinstance(loss, torch.Tensor)
        shown = f"a tensor of {show_shape(tuple(loss.shape))}" if is_tensor else repr(loss)[:60]
        what = f"{reference} returns {shown}, must return one number as a scalar tensor"
        raise FileError(where, "model.loss", what)
