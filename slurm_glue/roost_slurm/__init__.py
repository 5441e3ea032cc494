"""What runs inside or beside Slurm. Standard library only."""
