"""Memory of one device at the peak of a steady step: the one place that every strategy asks.

A step drops the gradients first (``zero_grad(set_to_none=True)``), runs its passes, and ends with the optimizer, whose
state exists from the second step on. The peak is the fullest of all moments of :mod:`.peak` (or :mod:`.sharded`) and
of the optimizer's; the kinds are those alive at that moment. Not in it: workspaces inside kernels (cuDNN, MKL), the
rounding of allocators and the pieces that they cannot use, the context of the driver. Under a tracker autograd adds
two gradients of a tensor into a third place, where a device adds in place: at joins that is one tensor too many.

Known error on traced workloads, against torch's tracker: below 1 % in every cell of ``paceline bench run memory``.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.strategy.contract import Memory, Situation
from paceline.strategy.ledger import ledger_of
from paceline.strategy.moment import Moments, fullest, moments
from paceline.strategy.peak import Stretch, stretch_of
from paceline.strategy.sharded import sharded_moments
from paceline.workload.device import find_device
from paceline.workload.optimizer import STATE_COPIES, scratch_bytes
from paceline.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class Shards:
    """Over how many ranks weights, gradients and the optimizer's state are divided.

    ``units`` are the layers (low, high) of each module that ``fully_shard`` wraps, all others are the root's;
    ``reshard`` says whether units let go of their weights after the forward. They matter where weights are divided.
    """

    parameters: int = 1
    gradients: int = 1
    optimizer: int = 1
    units: tuple[tuple[int, int], ...] = ()
    reshard: bool = True


WHOLE = Shards()


def zero_shards(level: int, ranks: int, units: tuple[tuple[int, int], ...] = ()) -> Shards:
    """Return what ZeRO's levels divide: 1 the optimizer's state, 2 gradients too, 3 weights too (FSDP2 for 2 and 3).

    FSDP2 holds sharded weights at level 2 as well, and gathers them for the time between forward and backward.

    >>> zero_shards(2, 8).reshard
    False
    """
    if level == 1:
        return Shards(optimizer=ranks)
    return Shards(ranks, ranks, ranks, units, reshard=level > 2)


def takes_all_at_once(situation: Situation) -> bool:
    """Whether torch's optimizers take all weights at once (``foreach``) on the device of a situation."""
    return find_device(situation.profile.device).generation != "cpu"


def stage_memory(
    workload: Workload,
    optimizer: str,
    *,
    batch: int | None = None,
    layers: tuple[int, int] | None = None,
    in_flight: int = 1,
    passes: int = 1,
    recompute: bool = False,
    shards: Shards = WHOLE,
    versions: int = 1,
    snapshots: int = 0,
    communication: int = 0,
    gradients_stay: bool = False,
    foreach: bool = True,
    decay: bool = False,
) -> Memory:
    """Return the memory of a device that trains some layers of a workload (all by default).

    - ``batch``: samples of one forward (a micro-batch, one pass of several), the workload's own by default;
    - ``passes``: forwards and backwards of a step, whose inputs are all on the device from its start;
    - ``in_flight``: passes whose activations are alive at once before the first backward (GPipe: all M micro-batches;
      1F1B on stage s of K: min(M, K - s); accumulation: 1). With as many as passes no forward follows a backward; with
      more the pipeline never drains, and the optimizer steps beside the others (PipeDream: K - s of passes 1);
    - ``recompute``: passes in flight keep only what the stage receives and sends; the rest is made again for the
      backward of one of them (torch.utils.checkpoint around the stage);
    - ``versions``: trained weights of so many updates are alive (PipeDream's stashing), the newest included;
    - ``snapshots``: further copies of them (an average under way, an outer optimizer's anchor and momentum);
    - ``communication``: bytes of buffers that live through the step (staging, compressed buckets);
    - ``gradients_stay``: gradients live in buffers that outlive ``zero_grad`` (DDP's buckets);
    - ``foreach``: the optimizer takes all weights at once, as torch does on GPUs; ``decay``: it adds weight decay.
    """
    ledger = ledger_of(workload, batch)
    low, high = layers or (0, ledger.layers)
    stretch = stretch_of(ledger, low, high)
    weights = ledger.weights if high - low == ledger.layers else stretch.weights
    trained = stretch.trained
    if shards.parameters > 1:
        parts = _sharded(stretch, weights, shards, in_flight, passes)
    else:
        parts = _whole(stretch, shards.gradients, in_flight, passes, recompute, gradients_stay)
    scratch = scratch_bytes(optimizer, stretch.sizes, foreach=foreach, decay=decay)
    scratch = -(-scratch // (shards.optimizer if foreach else shards.parameters))
    waiting = max(in_flight - passes, 0) * _each(stretch, recompute)
    parts.append(moments(1, gradients=-(-trained // shards.gradients), activations=waiting, workspace=scratch))
    peak = fullest(parts)
    return Memory(
        parameters=-(-weights // shards.parameters) + peak["parameters"],
        gradients=peak["gradients"],
        optimizer=-(-STATE_COPIES[optimizer] * trained // shards.optimizer),
        activations=peak["activations"],
        inputs=ledger.inputs * max(passes, in_flight) if low == 0 else 0,
        buffers=round(ledger.buffers * (high - low) / ledger.layers),
        communication=communication + peak["communication"],
        workspace=peak["workspace"],
        stashed=(versions - 1 + snapshots) * trained,
    )


def _each(stretch: Stretch, recompute: bool) -> int:
    """Return the activations of a pass that waits for its backward."""
    if recompute:
        return stretch.received(kept_too=True) + stretch.sent(kept_too=True)
    return stretch.received(kept_too=False) + stretch.kept_bytes + stretch.sent(kept_too=False)


def _whole(
    stretch: Stretch, divided: int, in_flight: int, passes: int, recompute: bool, gradients_stay: bool
) -> list[Moments]:
    """Return the moments of a device that holds its layers' weights whole."""
    trained, each = stretch.trained, _each(stretch, recompute)
    received, sent = stretch.received(kept_too=False), stretch.sent(kept_too=recompute)
    forward = received
    backward = received + sent + stretch.held(sent_too=not recompute)
    if recompute:  # the output that was sent and its gradient wait while the forward is made again
        forward += sent + int(stretch.ledger.flowing[stretch.high])
    fresh = stretch.fresh if divided == 1 else stretch.own + stretch.fresh // divided
    resident = stretch.own + trained // divided
    others = (in_flight - 1) * each
    parts = [
        stretch.forward(others + forward, trained // divided if gradients_stay else 0),
        stretch.backward(others + backward, resident if gradients_stay else fresh),
    ]
    if passes > 1 and not gradients_stay:
        # After the first backward its activations are gone and its gradients there; a new forward may follow it.
        later = others - each if passes == in_flight else others
        parts.append(stretch.backward(later + backward, resident))
        if passes != in_flight or recompute:
            parts.append(stretch.forward(later + forward, trained // divided))
    return parts


def _sharded(stretch: Stretch, weights: int, shards: Shards, in_flight: int, passes: int) -> list[Moments]:
    """Return the moments of a device that holds a shard of its layers' weights and gathers unit by unit."""
    edges = stretch.received(kept_too=False) + stretch.sent(kept_too=False)
    base = (in_flight - 1) * _each(stretch, recompute=False) + edges
    return [
        part
        for resident in ((False, True) if passes > 1 else (False,))
        for part in sharded_moments(
            stretch,
            shards.units,
            weights,
            ranks=shards.parameters,
            reshard=shards.reshard,
            resident=resident,
            base=base,
        )
    ]


def replica_memory(
    situation: Situation,
    communication: int = 0,
    *,
    passes: int = 1,
    snapshots: int = 0,
    gradients_stay: bool = False,
) -> Memory:
    """Return the memory of a device that holds the whole model and trains the plan's batch in each pass."""
    return stage_memory(
        situation.profile.workload,
        situation.profile.optimizer,
        batch=situation.plan.batch_per_device,
        passes=passes,
        communication=communication,
        gradients_stay=gradients_stay,
        snapshots=snapshots,
        foreach=takes_all_at_once(situation),
    )
