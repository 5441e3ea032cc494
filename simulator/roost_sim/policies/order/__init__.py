"""Orders of the literature: in which order waiting jobs are offered GPUs.

Lives here: sort keys and rankings.
Does not belong here: which GPUs a job gets.
"""
