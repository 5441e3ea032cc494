"""The processes on a GPU and the memory that each of them uses, as NVML lists them.

NVML lists the clients of an MPS server in a list of their own. The calls are those of driver 510
and later ones: on older drivers the binding's names without a version fail otherwise than by
NVMLError. Each call takes a lock that jobs share, for milliseconds on some drivers: this is asked
seldom, and only where it is needed.
"""

from typing import Any

import pynvml

_NOT_THERE = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})


def used_bytes_by_process(handle: Any) -> dict[int, int | None]:
    """Return what each process uses of a GPU's memory; None: the driver does not say.

    Raises:
        NVMLError: the driver does not list the processes, or the GPU is lost.
    """
    listed = list(pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle))
    try:
        listed += pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError as error:
        if error.value not in _NOT_THERE:
            raise
    found = dict[int, int | None]()
    for process in listed:
        used = process.usedGpuMemory
        known = found.get(process.pid, 0)
        # A process may be in both lists, with the same memory.
        found[process.pid] = None if used is None or known is None else max(int(used), known)
    return found
