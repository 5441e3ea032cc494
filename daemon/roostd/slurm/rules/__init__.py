"""A site's own rules as Slurm applies them: limits, quotas, shares, reasons why jobs wait.

Also which jobs and nodes roostd.yaml leaves to Slurm. Pure but for `rules_reader`, which asks it.
Not here: Roost's own limits on what a job may ask for, and what is read of the queue.
"""
