"""How fast one job runs where it is: profiles, rings and the models of published papers.

Also the fits on measured step times, and what policies get of them.
Not here: what other jobs cost it (links, sharing).
"""
