"""localsgd: local steps, then the average of all workers' weights, which everybody waits for.

    worker 0   step step step step  |average|  step step ...        tau = 4
    worker 1   step step step step  |average|  step step ...

Weights and biases are averaged; batch norm's statistics and the optimizer's state stay each worker's own (Stich 2018;
with ``start``, until which weights are averaged after every step: Lin et al. 2018).
"""

from __future__ import annotations

import torch
from torch import nn

from paceline.errors import FileError
from paceline.strategy.averaging import Averaging
from paceline.strategy.contract import Plan, Runner, RunSetting
from paceline.strategy.flat import flat_weights
from paceline.strategy.localsgd.outer import make_outer
from paceline.strategy.spread import spread
from paceline.strategy.trainstep import local_step


class LocalRunner(Runner):
    """Counts steps, which all workers take together, so that all meet whoever has samples."""

    drifts = True

    def __init__(self, plan: Plan, setting: RunSetting) -> None:
        start = int(plan.knobs["start"])
        if start and not setting.epoch_steps:
            raise FileError("plan", "start", f"is {start} epochs, and nobody said how long one is: give epoch_steps")
        self._setting = setting
        self._tau = int(plan.knobs["tau"])
        self._first_local = start * setting.epoch_steps
        spread(setting.model.parameters())
        self._flats = flat_weights(setting.model)
        self._average = Averaging(self._flats, setting.workers, setting.device)
        self._outer = make_outer(plan, self._flats, setting.optimizer)
        self._step = 0
        self._apart = 0  # steps since workers had the same weights

    @property
    def model(self) -> nn.Module:
        """The user's module, with this worker's weights."""
        return self._setting.model

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Take a step of this worker's own, and meet the others at the end of a round; return the own mean loss."""
        local = self._step >= self._first_local
        if self._step == self._first_local and self._outer:
            self._outer.begin()
        loss = local_step(self._setting, inputs, targets)
        self._step += 1
        self._apart += 1
        if self._apart == self._tau or not local:
            self._meet(outer=local)
        return float(loss)

    def exposed_seconds(self) -> float:
        """Return the wait for the average, where the last step ended a round."""
        return self._average.seconds()[0] if not self._apart else 0.0

    def finish(self) -> None:
        """Average what a round that the end cut short has moved, without an outer step."""
        if self._apart:
            self._meet(outer=False)

    def _meet(self, outer: bool) -> None:
        self._average.start()
        self._average.wait()
        if outer and self._outer:
            self._outer.step()
        for flat in self._flats:
            flat.give()
        self._apart = 0
