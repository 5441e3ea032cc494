"""The cluster as one decision scans it: free GPUs, links, load and labels of every node.

Lives here: state by node, the sets and tables that keep it quick to ask, and the feature columns.
Does not belong here: what a job wants, and which placement is best for it.
"""
