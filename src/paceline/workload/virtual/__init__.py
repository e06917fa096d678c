"""Virtual devices: models whose layers take the time that a profile says, on a machine that has no such device."""
