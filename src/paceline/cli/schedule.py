"""paceline schedule: the learning rate of a run, before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline.cli.common import JobFile, Json, Set
from paceline.cli.output import emit, headline, say, warn

if TYPE_CHECKING:
    from paceline.train.schedule import Schedule


def schedule(job: JobFile = None, *, set_: Set = (), json: Json = False) -> None:
    """Print and draw the learning rate of the job's plan over the whole run, and warn of batches that are too large.

    Nothing is measured and nothing is trained. A job whose plan is "auto" is answered by the plan that the device's
    model recommends.
    """
    from paceline.artefact import to_dict
    from paceline.data.bound import batch_bound
    from paceline.data.shard import steps_per_epoch
    from paceline.job.resolve import modelled_profile
    from paceline.study import Study
    from paceline.train.schedule import as_table, learning_rate, schedule_for
    from paceline.train.sketch import sketch, warnings

    study = Study(job, set_, measure=modelled_profile)
    found, train = study.prediction, study.case.job.spec.train
    replicas = max(found.global_batch // found.plan.batch_per_device // int(found.plan.knobs.get("accumulate", 1)), 1)
    epoch_steps = max(steps_per_epoch(found.epoch_samples, found.global_batch, replicas), 1)
    made = schedule_for(train, found.global_batch, replicas, epoch_steps)
    steps = min(made.steps, train.steps or made.steps)
    bound = batch_bound(found.epoch_samples, study.case.source.targets.classes)
    remarks = warnings(found.global_batch, bound, train.max_global_batch)
    if json:
        emit(
            {
                "plan": to_dict(found.plan),
                "global_batch": found.global_batch,
                "epoch_steps": epoch_steps,
                "epochs": made.epochs,
                "steps": steps,
                "base_lr": made.base,
                "scaled_lr": made.scaled,
                "rates": [
                    {
                        "epoch": epoch,
                        "first": learning_rate(made, epoch * epoch_steps),
                        "last": learning_rate(made, (epoch + 1) * epoch_steps - 1),
                    }
                    for epoch in range(made.epochs)
                ],
                "warnings": remarks,
            }
        )
        return
    headline(_answer(made, found.global_batch, steps))
    say(f"Plan: {found.plan}.\n")
    say(sketch(made, last=steps))
    say(as_table(made).rstrip())
    for remark in remarks:
        warn(f"Warning: {remark}.")


def _answer(made: Schedule, global_batch: int, steps: int) -> str:
    warming = f", reached by a {made.warmup} warm-up of {made.warmup_epochs} epochs" if made.warmup_epochs else ""
    return (
        f"Learning rate {made.scaled:.4g} for a global batch of {global_batch:,}{warming}; {made.shape} schedule, "
        f"{steps:,} steps, {made.steps_per_epoch:,} an epoch."
    )
