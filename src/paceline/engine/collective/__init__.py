"""Collectives: what each algorithm moves over which links of a group, and what that costs."""

from paceline.engine.collective.choose import ALL_REDUCE, COLLECTIVES, all_reduce, collective, phases, seconds_alone
from paceline.engine.collective.cost import Cost
from paceline.engine.collective.phase import Phase

__all__ = ["ALL_REDUCE", "COLLECTIVES", "Cost", "Phase", "all_reduce", "collective", "phases", "seconds_alone"]
