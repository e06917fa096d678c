"""Data: sets behind one protocol, their order shared out over the workers, batches prepared ahead."""
