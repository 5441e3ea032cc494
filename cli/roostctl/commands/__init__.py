"""The commands of `roostctl`, one module each, and the views that one command alone draws.

Each asks by a client, and prints tables or a document.
Not here: options that several commands have, and the JSON of the answers.
"""
