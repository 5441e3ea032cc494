"""The version of the probe."""

# Not importlib.metadata, which would cost the probe 3 MB; a test keeps it in step.
VERSION = "0.1.0"
