"""The services of gRPC: each reads a request, asks the daemon, and answers.

Not here: answers as messages (messages), access control (access), and ports (server).
"""
