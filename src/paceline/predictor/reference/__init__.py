"""The papers' own closed forms, beside the engine: to test against, and to show what the engine adds."""
