"""ONNX Runtime's telemetry, and the switch that it reads.

Left alone, release 1.32 on Linux writes a device ID into ~/.cache, looks up its vendor's host and
reports to it as soon as a model is loaded. Roost makes no connection that the site did not ask for.
"""

import os

VARIABLE = "ORT_DISABLE_TELEMETRY"


def switch_off() -> None:
    """Switch it off for this process and its children; later than the import is too late."""
    os.environ[VARIABLE] = "1"
