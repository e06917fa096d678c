"""Layers that compute many workers at once, each with weights of its own: activations are [workers, batch, ...]."""
