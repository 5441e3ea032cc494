"""The one import of ONNX Runtime."""

import os
import subprocess
import sys

from roost_formats.models.onnx_telemetry import VARIABLE


def test_telemetry_is_off_before_the_library_is_loaded() -> None:
    # An audit hook sees each import as it begins.
    script = (
        "import os, sys\n"
        "seen = []\n"
        "def hook(event, args):\n"
        "    if event == 'import' and args[0] == 'onnxruntime':\n"
        f"        seen.append(os.environ.get('{VARIABLE}'))\n"
        "sys.addaudithook(hook)\n"
        "from roost_formats.models.onnx_runtime import onnxruntime\n"
        "print(seen, onnxruntime.__name__)\n"
    )
    unset = {key: value for key, value in os.environ.items() if key != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", script], env=unset, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['1'] onnxruntime\n"
