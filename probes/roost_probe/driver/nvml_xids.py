"""XIDs, the driver's numbers for faults of a GPU, as NVML's events report them."""

import ctypes
from collections.abc import Sequence
from typing import Any

import pynvml

_MOST_XIDS = 64  # per reading; a GPU that is dying can report them without end


class XidEvents:
    """Listens for the XIDs of GPUs; reports none where the driver has no events.

    Args:
        handles: of the GPUs, by index; None: a GPU that cannot be asked.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self._indices = {address(one): index for index, one in enumerate(handles) if one}
        self._events: Any = None
        try:
            self._events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError:
            return
        for handle in filter(None, handles):
            try:
                pynvml.nvmlDeviceRegisterEvents(
                    handle, pynvml.nvmlEventTypeXidCriticalError, self._events
                )
            except pynvml.NVMLError:
                continue  # GeForce cards and some virtual machines have no events

    def read(self) -> tuple[tuple[int, int], ...]:
        """Return the (GPU index, XID) pairs that have come since the last call, oldest first."""
        found = list[tuple[int, int]]()
        while self._events is not None and len(found) < _MOST_XIDS:
            try:
                event = pynvml.nvmlEventSetWait(self._events, 0)
            except pynvml.NVMLError:
                break  # timed out: no more events
            index = self._indices.get(address(event.device))
            if index is not None:
                found.append((index, int(event.eventData)))
        return tuple(found)

    def close(self) -> None:
        """Stop listening.

        Raises:
            NVMLError: the driver is gone.
        """
        if self._events is not None:
            pynvml.nvmlEventSetFree(self._events)


def address(handle: Any) -> int | None:
    """Return the address that a handle points to: two handles of one GPU are two objects."""
    return ctypes.cast(handle, ctypes.c_void_p).value
