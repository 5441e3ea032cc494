"""Clusters: presets, files, and how far apart their nodes are."""
