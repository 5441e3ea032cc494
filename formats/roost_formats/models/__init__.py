"""ONNX models: read without trust, checked against the signature of their kind, run with a budget.

Lives here: the loader, the manifest, and the policies that ask a loaded model.
Does not belong here: training, and what the engine does with an answer.
"""
