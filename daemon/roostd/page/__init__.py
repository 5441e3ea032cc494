"""The web page: read-only answers over HTTP, and the files that a browser draws them with.

Requests are served in threads of their own; what they need of the daemon's state is read in its
event loop, in slices of a few milliseconds. Nothing here changes anything.
"""
