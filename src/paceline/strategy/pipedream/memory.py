"""pipedream: the memory of the fullest worker."""

from __future__ import annotations

from paceline.strategy.contract import Memory, Situation
from paceline.strategy.footprint import stage_memory, takes_all_at_once
from paceline.strategy.pipedream.order import admitted
from paceline.strategy.pipedream.partition import stages_of
from paceline.workload.arrays import layer_arrays


def pipedream_memory(situation: Situation) -> Memory:
    """Return the bytes of the fullest worker: every mini-batch in flight keeps its activations and its weights.

    With vertical sync a stage needs the weights that the input stage's oldest mini-batch began with. A stage of several
    replicas makes gradients while those of the round before travel.
    """
    stages = stages_of(situation)
    knobs, replicas = situation.plan.knobs, tuple(stage.replicas for stage in stages)
    workload = situation.profile.workload
    gradient = layer_arrays(situation.profile.workload).gradient
    every = []
    for number, stage in enumerate(stages):
        flying = admitted(replicas, number)
        versions = admitted(replicas, 0 if knobs["vertical_sync"] else number)
        travelling = round(float(gradient[stage.first : stage.stop].sum())) if stage.replicas > 1 else 0
        every.append(
            stage_memory(
                workload,
                situation.profile.optimizer,
                batch=situation.plan.batch_per_device,
                layers=(stage.first, stage.stop),
                in_flight=flying,
                versions=versions if knobs["stash"] else 1,
                communication=travelling,
                foreach=takes_all_at_once(situation),
            )
        )
    return max(every, key=lambda found: found.total)
