"""The networks in torch: forward passes, and their graphs in ONNX.

Not here: how they are trained, and what a release checks.
"""
