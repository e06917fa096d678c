"""Paceline: know how to spread a PyTorch training job over a cluster before you pay for it.

From Python the same nouns as on the command line; each takes a job file, its tables as a dict, or a :class:`Job`:

>>> import paceline
>>> paceline.trace({"model": {"name": "resnet50"}}).parameters
25557032
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.study import Study, launch, predict, profile, trace
    from paceline.study import recommend_plans as recommend
    from paceline.train.trainer import trainer

__version__ = "0.1.0"
__all__ = ["Study", "__version__", "launch", "predict", "profile", "recommend", "trace", "trainer"]

# Loaded when they are asked for: `paceline --help` imports none of them.
_PLACES = {
    "Study": ("paceline.study", "Study"),
    "trace": ("paceline.study", "trace"),
    "profile": ("paceline.study", "profile"),
    "predict": ("paceline.study", "predict"),
    "recommend": ("paceline.study", "recommend_plans"),
    "launch": ("paceline.study", "launch"),
    "trainer": ("paceline.train.trainer", "trainer"),
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        module, its_name = _PLACES[name]
        return getattr(import_module(module), its_name)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")
