"""Memory that every strategy needs alike, and the one rule for scratch space."""

from __future__ import annotations

from paceline.strategy.contract import Memory, Situation
from paceline.workload.optimizer import STATE_COPIES


def replica_memory(situation: Situation, communication: int = 0) -> Memory:
    """Return the memory of a device that holds the whole model.

    The peak is near the start of the backward, when all activations are alive and gradients begin to appear; torch
    frees activations as it goes, but gradients and optimizer state stay, so their sum with the activations bounds the
    peak from above by little for convolutional networks and is taken as the peak.
    """
    workload = situation.profile.workload.at(situation.plan.batch_per_device)
    copies = STATE_COPIES[situation.profile.optimizer]
    largest = max((layer.output_bytes for layer in workload.layers), default=0)
    return Memory(
        parameters=workload.parameter_bytes,
        gradients=workload.gradient_bytes,
        optimizer=copies * workload.gradient_bytes,
        activations=workload.kept_bytes,
        inputs=workload.input_bytes,
        buffers=workload.buffer_bytes,
        communication=communication,
        workspace=2 * largest,  # a layer's output and the gradient of it, alive at once
    )
