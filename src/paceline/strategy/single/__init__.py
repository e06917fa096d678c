"""One device: the baseline of every other strategy."""

from paceline.strategy.single.plan import Single

STRATEGY = Single()
