"""Small files for tests, good and bad.

Lives here: encoders that need no library beside the standard one and numpy.
Does not belong here: anything that the product itself imports.
"""
