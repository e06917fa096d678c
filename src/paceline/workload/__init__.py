"""Workloads: what a model costs layer by layer, traced without memory, measured or modelled on a device."""
