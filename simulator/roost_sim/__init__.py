"""The simulator: the daemon's own engine, driven by a trace instead of a cluster."""
