"""The commands of `roost-sim`, one module each.

Lives here: options, inputs and what is printed.
Does not belong here: anything that another program could want to call.
"""
