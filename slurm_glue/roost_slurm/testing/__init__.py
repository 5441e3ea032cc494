"""A throw-away Slurm cluster on this machine, for tests and the demonstration."""
