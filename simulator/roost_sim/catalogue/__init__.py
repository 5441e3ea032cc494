"""Every policy by name, put together from an order, a placement, a gate and a preemption rule.

Lives here: names, sources and what each part needs to know.
Does not belong here: the rules themselves (policies).
"""
