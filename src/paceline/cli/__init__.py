"""The command line: one thin file per command; every answer also as one JSON object."""
