"""The decision loop: the engine, its queue of events, and the journal of what it decided.

Events go in through `loop`; actions come out, and are in the journal before they are carried out.
Not here: what carries actions out, and what makes events of Slurm's answers.
"""
