"""A loaded model whose inputs, answers and answer times are checked against its signature."""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_formats.models.signature import Signature, Tensor

Array: TypeAlias = NDArray[Any]  # float32 or int64, as the signature says
Arrays: TypeAlias = Mapping[str, Array]  # by the tensor's name


_Output: TypeAlias = tuple[Tensor, tuple[int, ...]]

_MOST_FORMS = 256  # shapes of batches that are remembered


class Session(Protocol):
    """A model in a runtime, ready to answer."""

    def run(self, inputs: Arrays) -> Arrays:
        """Return the raw value of every output of the signature.

        Raises:
            PolicyError: the runtime failed.
        """


class CheckedModel:
    """A model that passed the loader's checks. loader.load_model makes one."""

    def __init__(
        self,
        session: Session,
        signature: Signature,
        *,
        sha256: str,
        columns: Mapping[str, tuple[str, ...]],
        clock: Callable[[], float],
    ) -> None:
        """Wrap a session.

        Args:
            session: the model in its runtime.
            signature: of its kind, with numbers for every symbol beside the batch.
            sha256: of its file.
            columns: the names of the last dimension's positions, by tensor; an adapter writes its
                inputs and reads its outputs in this order.
            clock: seconds, never backwards; roostd passes time.perf_counter.
        """
        self.name = f"onnx:{sha256[:12]}"
        self.signature, self.columns = signature, columns
        self._session, self._clock = session, clock
        self._input_order = [tensor.name for tensor in signature.inputs]
        self._forms: dict[tuple[object, ...], tuple[Mapping[str, int], Sequence[_Output]]] = {}
        self._input_names = frozenset(tensor.name for tensor in signature.inputs)
        self._slow_count = 0
        self._out_of_service_until_s: float | None = None

    def ask(self, inputs: Arrays) -> dict[str, Array]:
        """Return the model's answer to one batch.

        A batch for which every output is empty is answered without asking the model.

        Args:
            inputs: one array for each input of the signature.

        Returns:
            One array for each output of the signature, of exactly its shape, all finite.

        Raises:
            PolicyError: the inputs or the answer do not fit the signature or hold NaN or infinity,
                the runtime failed, the model was too slow too often, or it is out of service.
        """
        began_s = self._clock()
        until_s = self._out_of_service_until_s
        if until_s is not None and began_s < until_s:
            left_s = until_s - began_s
            raise PolicyError(f"{self.name} is out of service for {left_s:.0f} s: it was too slow")
        if inputs.keys() != self._input_names:
            wanted = ", ".join(tensor.name for tensor in self.signature.inputs)
            raise PolicyError(f"the inputs are {', '.join(inputs)}; want {wanted}")
        sizes, outputs = self._form(inputs)
        if 0 in sizes.values() and all(0 in shape for _, shape in outputs):
            return {tensor.name: np.empty(shape, tensor.dtype) for tensor, shape in outputs}
        if (name := _first_not_finite(inputs)) is not None:
            raise PolicyError(f"{name} {_verb(name, 'hold', 'holds')} NaN or infinity")
        answers = self._session.run(inputs)
        found = {
            tensor.name: self._checked(answers.get(tensor.name), tensor, shape, sizes)
            for tensor, shape in outputs
        }
        if (name := _first_not_finite(found)) is not None:
            raise PolicyError(f"{self.name} answered NaN or infinity{self._where(name)}")
        self._note_time(self._clock() - began_s)
        return found

    def _form(self, inputs: Arrays) -> tuple[Mapping[str, int], Sequence[_Output]]:
        """Return the sizes of a batch and the shape of each output; remembers the last batches.

        Raises:
            PolicyError: the inputs do not fit the signature.
        """
        key = tuple([(inputs[name].shape, inputs[name].dtype.char) for name in self._input_order])
        found = self._forms.get(key)
        if found is None:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            sizes = _sizes_of(self.signature.inputs, inputs)
            found = sizes, [(tensor, _shape(tensor, sizes)) for tensor in self.signature.outputs]
            self._forms[key] = found
        return found

    def _checked(
        self, answer: Array | None, tensor: Tensor, shape: tuple[int, ...], sizes: Mapping[str, int]
    ) -> Array:
        """Return one output in its shape; a column, [n, 1], may stand for one of shape [n]."""
        if answer is None:
            raise PolicyError(f"{self.name} gave no output {tensor.name!r}")
        if answer.dtype == tensor.dtype:
            if answer.shape == shape:
                return answer
            if len(shape) == 1 and answer.shape == (*shape, 1):
                return answer.reshape(shape)
        batch = " and ".join(f"{sizes[symbol]} {symbol}s" for symbol in self.signature.batch)
        raise PolicyError(
            f"{self.name} answered {answer.dtype}{list(answer.shape)}{self._where(tensor.name)}"
            f" to {batch}; want {tensor.describe(sizes)}"
        )

    def _where(self, tensor_name: str) -> str:
        return f" in {tensor_name}" if len(self.signature.outputs) > 1 else ""

    def _note_time(self, took_s: float) -> None:
        budget = self.signature.budget
        if took_s <= budget.answer_s:
            self._slow_count, self._out_of_service_until_s = 0, None
            return
        self._slow_count += 1
        if self._slow_count >= budget.slow_limit:
            # The count stays, so one more slow answer later takes the model out of service again.
            self._out_of_service_until_s = self._clock() + budget.out_of_service_s
            raise PolicyError(
                f"{self.name} took {took_s * 1000:.1f} ms, more than"
                f" {budget.answer_s * 1000:g} ms {self._slow_count} times in a row;"
                f" out of service for {budget.out_of_service_s:g} s"
            )


def _first_not_finite(arrays: Arrays) -> str | None:
    """Return the name of the first array that holds NaN or infinity; None: none does."""
    with np.errstate(over="ignore", invalid="ignore"):
        for name, array in arrays.items():
            # One quick call for most arrays: NaN and infinity stay in a sum of squares. A sum that
            # is too large for float32 says nothing, so then each number is looked at.
            if array.size and not isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
                return name
    return None


def _sizes_of(tensors: Sequence[Tensor], arrays: Arrays) -> dict[str, int]:
    """Return the value of every symbol in the shapes of some arrays.

    Args:
        tensors: the expected types and sizes.
        arrays: one for each tensor.

    Raises:
        PolicyError: an array has another type, another number of dimensions or another size than
            its tensor, or a symbol has two values.
    """
    sizes: dict[str, int] = {}
    for position, tensor in enumerate(tensors):
        array = arrays[tensor.name]
        if array.dtype != tensor.dtype or not _fits(array.shape, tensor.sizes, sizes):
            known = _sizes_of(tensors[:position], arrays)  # without this tensor's own sizes
            raise PolicyError(
                f"{tensor.name} {_verb(tensor.name, 'are', 'is')}"
                f" {array.dtype}{list(array.shape)}; want {tensor.describe(known)}"
            )
    return sizes


def _fits(shape: tuple[int, ...], wanted: tuple[int | str, ...], sizes: dict[str, int]) -> bool:
    """Whether a shape is the wanted one; notes the values of symbols that had none."""
    if len(shape) != len(wanted):
        return False
    for size, want in zip(shape, wanted, strict=True):
        if size != (sizes.setdefault(want, size) if isinstance(want, str) else want):
            return False
    return True


def _shape(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple([sizes[size] if isinstance(size, str) else size for size in tensor.sizes])


def _verb(name: str, plural: str, singular: str) -> str:
    """The form that fits a tensor's name: features are, cluster is."""
    return plural if name.endswith("s") else singular
