"""What a trace books while it watches: the sums of each layer, and the tensors that leave their layer."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.workload.alive import Own, Worst
from paceline.workload.kind import layer_kind
from paceline.workload.workload import NOBODY, OUTSIDE, Layer


@dataclass(slots=True)
class Tally:
    """The sums of a layer; ``shapes`` are those of the weights that it reads, the sides in the order of their size."""

    kernels: dict[str, int] = field(default_factory=dict)
    flops: int = 0
    backward_flops: int = 0
    forward_bytes: int = 0
    backward_bytes: int = 0
    forward_kernels: int = 0
    backward_kernels: int = 0
    kept_bytes: int = 0
    kept_fixed_bytes: int = 0
    parameter_sizes: list[int] = field(default_factory=list)
    parameter_shapes: list[tuple[int, int]] = field(default_factory=list)
    frozen_bytes: int = 0
    parameters: int = 0
    groups: int = 1
    kernel_size: tuple[int, ...] = ()
    shapes: set[tuple[int, ...]] = field(default_factory=set)
    forward: Worst = field(default_factory=Worst)
    backward: Worst = field(default_factory=Worst)

    def layer(self, name: str, module_type: str, output: int, forward: Own, backward: Own) -> Layer:
        """Return the layer that was watched."""
        return Layer(
            name=name,
            kind=layer_kind(module_type, self.kernels, self.groups, self.kernel_size),
            flops=self.flops,
            backward_flops=self.backward_flops,
            parameter_sizes=tuple(self.parameter_sizes),
            frozen_bytes=self.frozen_bytes,
            parameters=self.parameters,
            kept_bytes=self.kept_bytes,
            output_bytes=output,
            forward_bytes=self.forward_bytes,
            backward_bytes=self.backward_bytes,
            forward_kernels=self.forward_kernels,
            backward_kernels=self.backward_kernels,
            kept_fixed_bytes=self.kept_fixed_bytes,
            parameter_shapes=tuple(self.parameter_shapes),
            forward_peaks=forward,
            backward_peaks=backward,
        )


@dataclass(slots=True)
class Flow:
    """A tensor on its way: who made it, how large it is, who read it last, who keeps it."""

    producer: int
    bytes: int
    consumer: int = OUTSIDE
    keeper: int = NOBODY
