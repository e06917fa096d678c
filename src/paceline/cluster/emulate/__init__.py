"""The emulated cluster: one Linux machine stands in for many, with a network namespace each and shaped links."""
