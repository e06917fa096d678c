"""Strategies: one folder each, with what it does (run.py) and what it costs (cost.py) side by side."""
