"""Two jobs on a GPU: which pairs, and on which seats."""
