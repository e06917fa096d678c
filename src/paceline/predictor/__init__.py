"""Predictions: what a plan will take, in seconds, bytes and money, and why."""
