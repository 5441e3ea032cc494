"""The NVIDIA driver: NVML in a process of its own, and the readings that come from it.

A driver that hangs or dies takes that process along, not the probe.
Not here: what follows from a reading.
"""
