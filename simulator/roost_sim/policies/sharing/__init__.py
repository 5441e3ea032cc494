"""Rules that say which two jobs may share a GPU; each is a `roost_engine.sharing.pairs.PairRule`."""
