"""ONNX Runtime, set up for a daemon that shares its cores. The only module that imports it."""

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as state

from roost_engine.domain.errors import PolicyError

# The runtime's exceptions share no base but Exception.
_RUNTIME_ERRORS: tuple[type[Exception], ...] = (
    state.EPFail,
    state.EngineError,
    state.Fail,
    state.InvalidArgument,
    state.InvalidGraph,
    state.InvalidProtobuf,
    state.NoModel,
    state.NoSuchFile,
    state.NotImplemented,
    state.RuntimeException,
    RuntimeError,
    ValueError,
)
_SILENT = 4  # fatal only: what goes wrong arrives as an exception and is logged once


class OnnxSession:
    """One loaded model. See onnx_policy.Session."""

    def __init__(self, model: bytes, input_name: str, output_name: str) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.use_deterministic_compute = True
        options.log_severity_level = _SILENT
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        self._input_name, self._output_names = input_name, [output_name]
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except _RUNTIME_ERRORS as error:
            raise PolicyError(f"onnxruntime refuses the model: {error}") from error

    def run(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See onnx_policy.Session."""
        try:
            answer: NDArray[np.float32] = self._session.run(
                self._output_names, {self._input_name: features}
            )[0]
        except _RUNTIME_ERRORS as error:
            raise PolicyError(f"onnxruntime failed: {error}") from error
        return answer
