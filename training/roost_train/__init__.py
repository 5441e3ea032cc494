"""Training: makes the ONNX models; the only place with torch.

Lives here: nets, distillation, export, and checks of what was exported.
Does not belong here: running a model (roost_formats.models).
"""
