"""Training of the ONNX policies. The only package that imports torch."""
