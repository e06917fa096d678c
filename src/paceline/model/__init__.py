"""Models: the suite's networks, small ones for a CPU, and a user's own, behind one :class:`ModelSource`."""
