"""One sample of a probe as the quantities of load vectors. Page: docs/interference.md."""

import numpy as np
from numpy.typing import NDArray

from roost_engine.prediction.interference_vector import HALVES, QUANTITIES
from roostd.telemetry.board import NodeReport
from roostd.telemetry.link_use import KINDS, busy_fracs
from roostd.telemetry.probe_messages import column, read_load

_AT = {quantity: position for position, quantity in enumerate(QUANTITIES)}


def quantities(report: NodeReport) -> NDArray[np.float64] | None:
    """Return what the newest sample says of each GPU.

    Returns:
        float64 [gpu, quantity] in gres order, columns prediction.interference_vector.QUANTITIES on
        their scale, NaN where the driver reported nothing; `step_time` is never in a sample. None
        before the first sample.
    """
    busy = busy_fracs(report)
    if report.sample is None or busy is None:
        return None
    sample, order = report.sample, report.hello.order
    found = np.full((len(order), len(QUANTITIES)), np.nan)
    load = read_load(sample, order).astype(np.float64)
    for position, quantity in enumerate(("sm", "memory", "pcie", "nvlink")):
        found[:, _AT[quantity]] = load[:, position]
    found[:, _AT["nic"]] = busy[:, KINDS.index("nic")]
    found[:, _AT["power"]] = np.array(column(sample.power_w, order), dtype=np.float64)
    found[:, _AT["clock"]] = np.array(column(sample.sm_clock_hz, order), dtype=np.float64)
    found[:, _AT["memory_used"]] = _memory_fracs(report)
    for quantity, half in HALVES.items():
        at = _AT[quantity]
        found[:, at] = found[:, at] / (found[:, at] + half)
    return found


def _memory_fracs(report: NodeReport) -> NDArray[np.float64]:
    assert report.sample is not None
    used = np.array(column(report.sample.memory_used_bytes, report.hello.order), dtype=np.float64)
    gpus = report.hello.gpus
    sizes = [gpu.memory_bytes if gpu.HasField("memory_bytes") else 0 for gpu in gpus]
    whole = np.array(sizes, dtype=np.float64)
    whole[whole == 0] = np.nan
    fracs: NDArray[np.float64] = np.minimum(used / whole, 1.0)
    return fracs
