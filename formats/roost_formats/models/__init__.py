"""ONNX models: untrusted files, checked against the signature of their kind, run with a budget.

Lives here: the loader, the manifest, and the policies that ask a loaded model.
Does not belong here: training, and the engine's use of an answer.
"""
