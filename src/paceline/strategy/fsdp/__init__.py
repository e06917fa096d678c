"""Fully sharded data parallel: parameters, gradients and optimizer state are divided over the devices (ZeRO)."""

from paceline.strategy.fsdp.plan import FullySharded

STRATEGY = FullySharded()
