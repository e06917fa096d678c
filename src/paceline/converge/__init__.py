"""What a strategy does to accuracy: many workers of an algorithm simulated on one device."""
