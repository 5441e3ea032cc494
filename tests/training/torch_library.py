"""Tests of what needs torch import this first: it skips their module, or fails it in CI."""

import importlib.util
import os

import pytest

MISSING = [name for name in ("torch", "onnx") if importlib.util.find_spec(name) is None]

if MISSING:
    reason = f"{' and '.join(MISSING)} not installed (the train extra)"
    if os.environ.get("ROOST_REQUIRE_REAL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)
