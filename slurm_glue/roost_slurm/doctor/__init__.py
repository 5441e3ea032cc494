"""`roost-slurm doctor`: what is wrong with Roost on this machine, and the cure of each.

It looks, and changes nothing.
Not here: what roostd says of itself.
"""
