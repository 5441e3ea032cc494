"""Warm start: an order model that imitates the scheduler that a site has now.

Not here: the improvement that may follow it.
"""
