"""Options that several commands share: inputs, the engine's numbers, the world, and their values.

Also what completes them at the Tab key.
Not here: the options of one command.
"""
