"""The commands of `roost-sim`, one module each, and the tables that one command alone prints.

Not here: options that several commands share, and anything that another program could call.
"""
