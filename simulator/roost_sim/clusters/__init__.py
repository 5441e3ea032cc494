"""Clusters: nodes, links, racks and what the network carries.

Lives here: presets and files that describe clusters.
Does not belong here: how fast a job runs on one (worlds).
"""
