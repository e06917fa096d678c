"""The loop that every strategy shares: recipe, learning rate, precision, checkpoints."""
