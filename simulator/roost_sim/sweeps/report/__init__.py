"""The HTML report of a comparison: one file with its style, scripts and figures inside.

Lives here: the page, its scripts, and the document that they draw.
Does not belong here: figures that the terminal shows too.
"""
