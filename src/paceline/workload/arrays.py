"""A workload's figures by layer as arrays, made once: a search asks for them thousands of times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from paceline.workload.same import Same
from paceline.workload.workload import Workload

Floats = npt.NDArray[np.float64]


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
    gradient_bytes: int  # of all layers


def layer_arrays(workload: Workload) -> LayerArrays:
    """Return a workload's arrays; activations are those of one sample. Those of the last few dozen are remembered."""
    return _made(Same(workload))


@lru_cache(maxsize=64)
def _made(same: Same) -> LayerArrays:
    workload = same.workload
    layers = workload.layers
    fixed = np.array([min(layer.kept_fixed_bytes, layer.kept_bytes) for layer in layers], float)
    cut = np.array(workload.cut_bytes(), float) / workload.batch
    return LayerArrays(
        parameter=np.array([layer.parameter_bytes for layer in layers], float),
        gradient=np.array([layer.gradient_bytes for layer in layers], float),
        live=(np.array([layer.kept_bytes for layer in layers], float) - fixed) / workload.batch,
        fixed=fixed,
        cut=cut,
        entering=np.concatenate([[workload.input_bytes / workload.batch], cut[:-1]]),
        output=np.array([layer.output_bytes for layer in layers], float) / workload.batch,
        names=workload.layer_names,
        gradient_bytes=workload.gradient_bytes,
    )
