"""The model of what neighbours cost: measured pairs, training, figures, a refit to a site.

Not here: measuring pairs on a GPU, which is in `pairs`.
"""
