"""Access control: certificates, roles, UNIX sockets and limits for each caller.

Not here: what a call does.
"""
