"""Puts this folder on the import path, so that every room's tests can take their values from ``handmade``."""

from hypothesis import settings

# A busy machine is no failure: examples have no deadline.
settings.register_profile("paceline", deadline=None)
settings.load_profile("paceline")
