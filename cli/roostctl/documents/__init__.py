"""The JSON that roostctl prints, one TypedDict a shape. docs/roostctl.md describes every key.

Keys keep the order in which they are declared. Base units; null for what is not known or does not
apply; a schema's number rises when a key changes meaning or goes, not when one is added.
"""
