"""The file formats that more than one program reads: the audit log, journals, ONNX models, YAML.

Lives here: reading, checking and writing them, so that no program needs another one for it.
Does not belong here: decisions, Slurm, gRPC, and formats that only one program uses.
"""
