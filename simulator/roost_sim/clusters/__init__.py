"""Clusters: nodes, links, racks and the bandwidth of the network.

Lives here: presets and files that describe clusters.
Does not belong here: how fast a job runs on one (worlds).
"""
