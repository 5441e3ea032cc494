"""Two jobs on a GPU: which pairs, and on which seats.

Lives here: the pairs that may share, the search for a seat, and the separation of bad pairs.
Does not belong here: which job holds which seat (cluster); Slurm's entries for seats (roost_slurm).
"""
