"""DaSGD: local steps whose average arrives some steps later, while nobody waits for it."""

from paceline.strategy.dasgd.plan import DelayedAveraging

STRATEGY = DelayedAveraging()
