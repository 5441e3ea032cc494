"""What Slurm runs around a job, and the files by which it and roostd hear of each other.

Runs on compute nodes before every job: it imports little, and always ends in time.
Not here: the installation of the hooks.
"""
