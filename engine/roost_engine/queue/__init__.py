"""The waiting jobs, grouped by what they ask for, and the orders that serve them.

Lives here: which jobs a pass offers GPUs to, in which order, and which need not be tried again.
Does not belong here: what becomes of an offer.
"""
