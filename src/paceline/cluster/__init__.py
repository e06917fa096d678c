"""The cluster: hosts, devices, helpers and the links between them; files, presets and this machine."""
