"""Local SGD: every device takes tau steps of its own, then all weights are averaged."""

from paceline.strategy.localsgd.plan import LocalSGD

STRATEGY = LocalSGD()
