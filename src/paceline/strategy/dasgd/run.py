"""dasgd: a round's average travels while the next local steps run, and is merged ``delay`` steps into the next round.

    compute   1 2 3 4 take | 1 2 give | 3 4 take | 1 2 give | ...        tau = 4, delay = 2
    network                --average--           --average--

    w <- xi w + (1 - xi) average

The first round merges nothing; with delay 0 the average is merged at once, by every worker; with xi = 1 nothing is sent
at all, also at the end. Weights and biases are averaged; batch norm's statistics and the optimizer's state stay each
worker's own.
"""

from __future__ import annotations

import torch
from torch import nn

from paceline.strategy.averaging import Averaging
from paceline.strategy.contract import Plan, Runner, RunSetting
from paceline.strategy.flat import Flat, flat_weights
from paceline.strategy.spread import spread
from paceline.strategy.trainstep import local_step


class DelayedRunner(Runner):
    """Counts steps, which all workers take together, so that averages start and merge everywhere after the same one."""

    drifts = True

    def __init__(self, plan: Plan, setting: RunSetting) -> None:
        self._setting = setting
        self._tau, self._delay = int(plan.knobs["tau"]), int(plan.knobs["delay"])
        self._xi = float(plan.knobs["xi"])
        spread(setting.model.parameters())
        self._flats: tuple[Flat, ...] = flat_weights(setting.model) if self._xi < 1 else ()
        self._average = Averaging(self._flats, setting.workers, setting.device)
        self._done = 0  # local steps of this round
        self._merged = False  # in the last step

    @property
    def model(self) -> nn.Module:
        """The user's module, with this worker's weights."""
        return self._setting.model

    def step(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        """Take a step of this worker's own, merge or send what is due behind it, and return the own mean loss."""
        loss = local_step(self._setting, inputs, targets)
        self._done += 1
        self._merged = False
        if self._done == self._delay and self._average.under_way:
            self._merge(self._xi)
        if self._done == self._tau:
            self._average.start()
            self._done = 0
            if self._delay == 0:
                self._merge(self._xi)
        return float(loss)

    def exposed_seconds(self) -> float:
        """Return the wait for an average that was late."""
        return self._average.seconds()[0] if self._merged else 0.0

    def hidden_seconds(self) -> float:
        """Return the part of a merged average's time that ran beside local steps."""
        return self._average.seconds()[1] if self._merged else 0.0

    def finish(self) -> None:
        """Average the weights as they are; an average that is still under way is of older ones, and is dropped."""
        if self._average.under_way:
            self._average.wait()
        self._average.start()
        self._merge(keep=0.0)

    def _merge(self, keep: float) -> None:
        self._average.wait()
        for flat in self._flats:
            flat.give(keep)
        self._merged = True
