"""The catalogue of named models with their exact sizes: built without memory, traced where FLOPs are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.model.source import load_model
from paceline.model.spec import ModelSpec, show_shape
from paceline.model.suite import list_models


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A named model: what it eats, and its size; FLOPs are those of one sample."""

    name: str
    variant: str | None
    family: str
    input: str
    classes: int
    parameters: int
    flops: int | None = None
    backward_flops: int | None = None


def catalogue(flops: bool = False) -> Iterator[CatalogueEntry]:
    """Yield every named model; FLOPs take a trace of each, half a second for the larger ones."""
    import torch

    from paceline.workload.trace import trace

    for entry in list_models():
        source = load_model(ModelSpec(name=entry.name, variant=entry.variant))
        # At a batch of 2: batch norm refuses a single value per channel.
        workload = trace(source, 2) if flops else None
        if workload is None:
            with torch.device("meta"):
                parameters = sum(p.numel() for p in source.build().parameters())
        else:
            parameters = workload.parameters
        yield CatalogueEntry(
            name=entry.name,
            variant=entry.variant,
            family=entry.family,
            input=show_shape(source.inputs.shape),
            classes=source.targets.classes,
            parameters=parameters,
            flops=workload.flops // 2 if workload else None,
            backward_flops=workload.backward_flops // 2 if workload else None,
        )
