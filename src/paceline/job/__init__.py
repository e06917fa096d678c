"""Jobs: one TOML file that says what to train, on what, and how; every key can be overridden."""
