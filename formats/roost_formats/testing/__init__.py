"""Small files for tests, good and bad, and fakes of what reads them.

Lives here: encoders that need no library beside the standard one and numpy; sessions of models that
answer correctly, wrongly, slowly or not at all.
Does not belong here: anything that the product itself imports.
"""
