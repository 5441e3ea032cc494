"""Which running jobs are stopped or migrated, and for which waiting job.

Lives here: preemption policies, and the plans that wait until their GPUs are free.
Does not belong here: how Slurm is made to stop a job.
"""
