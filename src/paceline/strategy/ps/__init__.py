"""Parameter servers that only sum, on hosts and on CPU-only helpers (BytePS)."""

from paceline.strategy.ps.plan import ParameterServer

STRATEGY = ParameterServer()
