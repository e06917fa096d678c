"""1F1B: micro-batches through stages, backwards as early as can be; optionally several stages a device."""

from paceline.strategy.onefoneb.plan import OneForwardOneBackward

STRATEGY = OneForwardOneBackward()
