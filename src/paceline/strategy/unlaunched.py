"""What a strategy has that can be predicted and not launched."""

from __future__ import annotations

from typing import NoReturn

from paceline.errors import UnavailableError
from paceline.strategy.contract import Plan, RunSetting


class Unlaunched:
    """A strategy without a runner; those who launch ask ``runnable`` first."""

    name: str
    runnable = False

    def runner(self, plan: Plan, setting: RunSetting) -> NoReturn:
        """Refuse."""
        raise UnavailableError(
            f"{self.name} can be predicted but not launched; `paceline strategies` lists those that can"
        )
