"""The engine: plays the tasks of a step on devices and links, and says when each of them ran."""
