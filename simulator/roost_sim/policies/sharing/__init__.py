"""Rules that say which two jobs may share a GPU.

Lives here: rules that only simulations run; each is a `roost_engine.sharing.pairs.PairRule`.
Does not belong here: roostd's own rule (roost_engine.sharing).
"""
