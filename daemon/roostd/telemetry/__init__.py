"""The probes' reports, checked and turned into the engine's terms.

Lives here: the newest report of each node, and how busy the links of running jobs are.
Does not belong here: gRPC streams (rpc).
"""
