"""A site's own rules as Slurm applies them: limits, quotas, shares, reasons why jobs wait.

Pure but for `rules_reader`, which asks Slurm for them.
Not here: what a single job asks for, and what is read of the queue.
"""
