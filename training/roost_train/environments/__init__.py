"""Environments: simulations that stop where a decision is due, and continue with the answer.

Here live the paused simulation, its rewards and episodes, the gymnasium environment over one of
them and the batch of many. Nothing here knows a network, and `decisions` alone imports torch.
"""
