"""Node probe: reads topology and load through NVML and streams them to roostd."""
