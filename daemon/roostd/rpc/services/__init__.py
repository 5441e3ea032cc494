"""The services of gRPC: each reads a request, asks the daemon, and answers.

Not here: answers as messages (messages), who may call (access), and ports (server).
"""
