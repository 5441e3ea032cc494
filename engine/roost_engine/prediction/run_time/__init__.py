"""How long jobs still run: the history of ended jobs, and a model that is asked beside it.

Not here: what is made of it: orders, reservations, forecasts.
"""
