"""What jobs on one node, or on one GPU, cost each other, by measured pairs.

Not here: what a policy predicts of it (information).
"""
