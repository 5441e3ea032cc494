"""ONNX Runtime, set up for a daemon that shares its cores. The only module that runs models."""

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Arrays
from roost_formats.models.onnx_runtime import onnxruntime as ort

state = ort.capi.onnxruntime_pybind11_state

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
    """One model in ONNX Runtime. See checked_model.Session."""

    def __init__(self, model: bytes, output_names: tuple[str, ...]) -> None:
        """Load a model.

        Args:
            model: the bytes of its file, checked before.
            output_names: the outputs that every answer holds.

        Raises:
            PolicyError: the runtime refuses the model.
        """
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
        self._output_names = output_names
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except _RUNTIME_ERRORS as error:
            raise PolicyError(f"onnxruntime refuses the model: {error}") from error

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        try:
            answers = self._session.run(self._output_names, dict(inputs))
        except _RUNTIME_ERRORS as error:
            raise PolicyError(f"onnxruntime failed: {error}") from error
        return dict(zip(self._output_names, answers, strict=True))
