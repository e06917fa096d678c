"""Paceline: know how to spread a PyTorch training job over a cluster before you pay for it."""

__version__ = "0.1.0"
