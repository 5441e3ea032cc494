"""The speed of a job by tier: learned from its runs, or from the table of the site.

Not here: what neighbours cost (interference).
"""
