"""ONNX Runtime with its telemetry off. Every part of Roost imports the runtime from here."""

from roost_formats.models import onnx_telemetry

onnx_telemetry.switch_off()

import onnxruntime  # noqa: E402

__all__ = ["onnxruntime"]
