"""How answers look on a terminal: tables, numbers, names, and text that cannot do harm.

Not here: the JSON of the answers (documents), and what a command says (commands).
"""
