"""Model parallel: layers split over devices, one batch at a time."""

from paceline.strategy.model.plan import ModelParallel

STRATEGY = ModelParallel()
