"""Models of run times: jobs of a trace as they were submitted, training, figures, comparisons.

Not here: the history that learns online, which is in `roost_engine.prediction`.
"""
