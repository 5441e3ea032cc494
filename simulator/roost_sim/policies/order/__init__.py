"""Orders of the literature: which job is offered GPUs next.

Lives here: sort keys and rankings.
Does not belong here: which GPUs a job gets.
"""
