"""Roost daemon: decides which GPUs each waiting Slurm job gets, and when."""
