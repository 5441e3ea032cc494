"""What waiting jobs have already: busy GPUs that they get next, and the start they were promised.

Here: standing pins, GPUs that Slurm frees for a job released to it, promised starts.
Not here: which nodes a reservation keeps free, which is searched in `placement`.
"""
