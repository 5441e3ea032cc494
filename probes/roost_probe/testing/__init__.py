"""The fake NVML driver and its YAML descriptions."""
