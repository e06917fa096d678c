"""The ``[train]`` table of a job: batch, length, precision, optimizer and the rules of the learning rate."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from paceline.schema import Count, NonNegative, Positive, Section, wrong_key
from paceline.train.checkpoint.interval import parse_interval
from paceline.workload.optimizer import OptimizerName

# TOML writes a list where the value holds a tuple: frozen, and equal to another with the same epochs.
Milestones = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)]


class TrainSpec(Section):
    """How a model is trained, whatever the strategy.

    The learning rate is that of ``lr_reference_batch`` samples; ``scaling`` carries it to the global batch.
    ``steps`` stops a run early and leaves the learning rate as ``epochs`` says, so that a short trial follows
    the real run.

    >>> TrainSpec(lr=0.1, lr_reference_batch=256, scaling="linear", momentum=0).batch_per_device
    32
    """

    batch_per_device: Count = 32
    global_batch: Count | None = None
    max_global_batch: Count | None = None
    epochs: Count = 1
    steps: Count | None = None
    precision: Literal["fp32", "bf16", "fp16", "fp64"] = "fp32"
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    checkpoint_every: str | None = None  # "500 steps", "1 epoch"
    keep: Annotated[int, Field(ge=1, le=1000)] = 3  # checkpoints

    optimizer: OptimizerName = "sgd"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    nesterov: bool = False
    momentum_correction: bool = True  # Goyal et al. 2017, remark 2: what torch's momentum does by its form
    trust: Positive = 0.001  # LARS's coefficient
    weight_decay: NonNegative = 0.0
    decay_norm_and_bias: bool = True
    clip_norm: Positive | None = None
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    zero_init_last_bn: bool = False  # Goyal et al. 2017: the last gain of a residual block starts at 0

    lr: Positive = 0.1
    lr_min: NonNegative = 0.0
    lr_reference_batch: Count | None = None
    scaling: Literal["none", "linear", "sqrt"] = "none"
    # "gradual" moves every iteration (Goyal et al. 2017), "gradual-epoch" once per epoch, "stepping" by equal
    # steps from zero.
    warmup: Literal["none", "stepping", "gradual-epoch", "gradual"] = "none"
    warmup_epochs: Count = 5
    schedule: Literal["constant", "step", "cosine", "one-cycle"] = "constant"
    milestones: Milestones = ()
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.1
    one_cycle_peak: Annotated[float, Field(gt=0, lt=1)] = 0.3

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse keys that contradict each other, naming the one to change."""
        if self.checkpoint_every is not None:
            try:
                parse_interval(self.checkpoint_every)
            except ValueError as error:
                raise wrong_key("checkpoint_every", self.checkpoint_every, str(error)) from None
        for wrong, key, what in (
            (
                self.max_global_batch is not None and (self.global_batch or 0) > self.max_global_batch,
                "global_batch",
                f"is {self.global_batch}, above max_global_batch = {self.max_global_batch}",
            ),
            (
                self.optimizer not in ("sgd", "lars") and self.momentum > 0,
                "momentum",
                f"is {self.momentum:g}, and {self.optimizer} has none; set it to 0 or take optimizer = 'sgd'",
            ),
            (
                self.nesterov and self.optimizer == "lars",
                "nesterov",
                "is true, and lars has none; set it to false or take optimizer = 'sgd'",
            ),
            (
                self.nesterov and self.momentum == 0,
                "nesterov",
                "is true, and momentum is 0; give a momentum such as 0.9",
            ),
            (
                self.lr_min > self.lr,
                "lr_min",
                f"is {self.lr_min:g}, above lr = {self.lr:g}",
            ),
            (
                self.scaling != "none" and self.lr_reference_batch is None,
                "lr_reference_batch",
                f"is missing, and scaling = {self.scaling!r} needs it: the global batch that lr is meant for",
            ),
            (
                self.warmup != "none" and self.schedule == "one-cycle",
                "warmup",
                f"is {self.warmup!r}, and schedule = 'one-cycle' warms up by itself; set it to 'none'",
            ),
            (
                self.warmup != "none" and self.warmup_epochs > self.epochs,
                "warmup_epochs",
                f"is {self.warmup_epochs}, longer than epochs = {self.epochs}",
            ),
            (
                self.schedule == "step" and not self.milestones,
                "milestones",
                "is missing, and schedule = 'step' needs the epochs at which lr drops, such as [30, 60, 80]",
            ),
            (
                any(later <= earlier for earlier, later in zip(self.milestones, self.milestones[1:])),
                "milestones",
                f"is {list(self.milestones)}, must increase",
            ),
        ):
            if wrong:
                raise wrong_key(key, getattr(self, key), what)
        return self
