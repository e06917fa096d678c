"""GPipe: micro-batches through stages, all forwards before all backwards."""

from paceline.strategy.gpipe.plan import GPipe

STRATEGY = GPipe()
