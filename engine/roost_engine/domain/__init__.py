"""The nouns of placement: jobs, nodes, links, tiers, events, actions, errors, configuration.

Lives here: frozen data and arithmetic on it.
Does not belong here: state that changes, and anything that needs another package of the engine.
"""
