"""Launching: here, with torchrun's machinery; every way ends in the same workers."""
