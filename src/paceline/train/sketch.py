"""A schedule drawn as text, and what there is to say against it."""

from __future__ import annotations

from paceline.data.bound import BatchBound
from paceline.train.schedule import Schedule, learning_rate

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_LOOKED_AT = 4096  # steps among which the highest rate is looked for


def sketch(schedule: Schedule, width: int = 72, height: int = 8, last: int | None = None) -> str:
    """Return the learning rate over the epochs as an area of ``width`` by ``height`` characters.

    Each column stands for the step in its middle; heights are rounded to an eighth of a line. ``last`` is the number of
    steps where a run ends before its schedule does.

    >>> from paceline.train.schedule import schedule_for
    >>> from paceline.train.spec import TrainSpec
    >>> spec = TrainSpec(lr=0.4, epochs=6, warmup="gradual", warmup_epochs=2, schedule="step", milestones=[4])
    >>> print(sketch(schedule_for(spec, 64, 4, 100), width=12, height=3), end="")
         0.4 ┤  ▁▆████
             │ ▅██████
             │████████▂▂▂▂
           0 └────────────
              0  epoch   6
    """
    steps = min(schedule.steps, last or schedule.steps)
    rates = [learning_rate(schedule, (2 * column + 1) * steps // (2 * width)) for column in range(width)]
    top = max(*rates, *(learning_rate(schedule, step) for step in range(0, steps, max(steps // _LOOKED_AT, 1))))
    levels = [round(rate / top * height * 8) for rate in rates]
    lines = []
    for line in reversed(range(height)):
        area = "".join(_EIGHTHS[min(max(level - 8 * line, 0), 8)] for level in levels).rstrip()
        lines.append(f"{f'{top:.4g}' if line == height - 1 else '':>8} {'┤' if line == height - 1 else '│'}{area}")
    end = f"{steps / schedule.steps_per_epoch:.4g}"
    lines += [f"{'0':>8} └{'─' * width}", f"{'':>10}0{'epoch':^{width - 1 - len(end)}}{end}"]
    return "\n".join(lines) + "\n"


def warnings(global_batch: int, bound: BatchBound | None, most: int | None = None) -> list[str]:
    """Return what is known to go wrong with a global batch: the data set's bound, or the job's own in its place.

    >>> warnings(16384, BatchBound(8192, "ILSVRC 2012", "Goyal et al. 2017"))[0][:60]
    'the global batch of 16,384 is above 8,192, up to which ILSVR'
    """
    if most is not None:
        if global_batch <= most:
            return []
        return [f"the global batch of {global_batch:,} is above the job's train.max_global_batch = {most:,}"]
    if bound is None or global_batch <= bound.samples:
        return []
    return [
        f"the global batch of {global_batch:,} is above {bound.samples:,}, up to which {bound.data} is known to keep "
        f"its accuracy ({bound.source}); take fewer devices, a smaller batch_per_device, or expect a larger error"
    ]
