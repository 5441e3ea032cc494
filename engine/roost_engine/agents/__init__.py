"""Agents: the cluster in parts, each with a queue of its own; jobs forwarded, and parts that lend.

Lives here: the split of the racks, an agent's summary, and which agent has a job.
Does not belong here: the decisions of an agent; those are the engine's, on the agent's nodes alone.
"""
