"""Calls to the daemon's services, a client for each, and the message for each way to fail.

The only place that knows stubs and channels of gRPC.
Not here: what is printed of an answer.
"""
