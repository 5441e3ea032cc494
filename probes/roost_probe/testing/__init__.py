"""A fake node: an NVML driver compiled from C, its YAML descriptions, and a fake roostd.

Lives here: what stands in for GPUs, sysfs and the daemon while the real probe runs.
Does not belong here: anything that the probe itself imports.
"""
