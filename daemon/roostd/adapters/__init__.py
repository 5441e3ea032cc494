"""One outside thing per module: Slurm, ONNX Runtime, the journal, the clock."""
