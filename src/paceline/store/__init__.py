"""Every prediction and run, kept: the SQLite store and the folders of runs."""
