"""A workload's figures by layer as arrays, made once: a search asks for them thousands of times."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.workload.workload import Workload

Floats = npt.NDArray[np.float64]
_KEPT = 32  # workloads that are remembered


@dataclass(frozen=True, slots=True, eq=False)
class LayerArrays:
    """Bytes by layer for one sample (activations) and in all (weights), at the batch that was traced.

    ``cut`` is what crosses behind each layer, ``live`` what autograd keeps, ``fixed`` the part of it that no batch
    changes; ``entering`` is what crosses in front of each layer.
    """

    parameter: Floats
    gradient: Floats
    live: Floats
    fixed: Floats
    cut: Floats
    entering: Floats
    output: Floats
    names: tuple[str, ...]


_made: OrderedDict[int, tuple[Workload, LayerArrays]] = OrderedDict()


def layer_arrays(workload: Workload) -> LayerArrays:
    """Return a workload's arrays; activations are those of one sample."""
    known = _made.get(id(workload))
    if known is not None and known[0] is workload:
        return known[1]
    layers = workload.layers
    fixed = np.array([min(layer.kept_fixed_bytes, layer.kept_bytes) for layer in layers], float)
    cut = np.array(workload.cut_bytes(), float) / workload.batch
    found = LayerArrays(
        parameter=np.array([layer.parameter_bytes for layer in layers], float),
        gradient=np.array([layer.gradient_bytes for layer in layers], float),
        live=(np.array([layer.kept_bytes for layer in layers], float) - fixed) / workload.batch,
        fixed=fixed,
        cut=cut,
        entering=np.concatenate([[workload.input_bytes / workload.batch], cut[:-1]]),
        output=np.array([layer.output_bytes for layer in layers], float) / workload.batch,
        names=workload.layer_names,
    )
    _made[id(workload)] = (workload, found)
    while len(_made) > _KEPT:
        _made.popitem(last=False)
    return found
