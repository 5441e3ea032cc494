"""How busy the links of a node's GPUs are: the counted traffic over the links' bandwidth.

    nvlink(g) = (sent + received) / (lanes of g · 50e9 bytes/s)
    pcie(g)   = (sent + received) / 63e9 bytes/s
    nic(g)    = max over the cards nearest to g of max(sent, received) / speed of the card

each at most 1. Traffic at full bandwidth keeps a link busy for exactly this fraction of the time.
Traffic that waits in between, for other GPUs or for a congested network, keeps it busy for longer:
the fraction is a lower bound. A card counts for every GPU that is nearest to it, whichever jobs
hold these GPUs.
"""

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.events import LOAD_COLUMNS
from roostd.telemetry.board import NodeReport
from roostd.telemetry.probe_messages import column, read_load

KINDS = ("nvlink", "pcie", "nic")

# Both directions. NVIDIA's data sheets: V100 300 GB/s on 6 lanes, A100 600 on 12, H100 900 on 18. A
# lane of NVLink 5 has twice that; probes do not report the generation, so fractions there are up to
# twice too high.
LANE_BYTES_PER_S = 50e9
# PCIe 4.0 x16, both directions, 16 GT/s · 16 · 128/130 / 8 each.
PCIE_BYTES_PER_S = 63e9
_PCIE, _NVLINK = LOAD_COLUMNS.index("pcie_bytes_per_s"), LOAD_COLUMNS.index("nvlink_bytes_per_s")


def busy_fracs(report: NodeReport) -> NDArray[np.float32] | None:
    """Return how busy each GPU's links were in the newest sample.

    Returns:
        float32 [gpu, 3] in gres order, columns KINDS, 0 to 1; NaN where the driver reported nothing
        or there is no such link. None before the first sample.
    """
    if report.sample is None:
        return None
    load = read_load(report.sample, report.hello.order)
    most = np.array(report.hello.lane_counts, dtype=np.float32) * np.float32(LANE_BYTES_PER_S)
    most[most == 0] = np.nan
    shares = (load[:, _NVLINK] / most, load[:, _PCIE] / PCIE_BYTES_PER_S, nic_fracs(report))
    capped: NDArray[np.float32] = np.minimum(np.stack(shares, axis=1), np.float32(1.0))
    return capped


def nic_fracs(report: NodeReport) -> NDArray[np.float32]:
    """Return how busy the cards nearest to each GPU were: float32 [gpu] in gres order, uncapped.

    The report has a sample.
    """
    assert report.sample is not None
    nics, nearest = report.hello.nics, report.hello.nearest_nics
    found = np.full(len(nearest), np.nan, dtype=np.float32)
    if not report.sample.nic_tx_bytes_per_s.present_mask:
        return found
    sent = column(report.sample.nic_tx_bytes_per_s, range(len(nics)))
    received = column(report.sample.nic_rx_bytes_per_s, range(len(nics)))
    for gpu, positions in enumerate(nearest):
        shares = [
            max(rates) / nics[nic].bytes_per_s
            for nic in positions
            if (rates := [rate for rate in (sent[nic], received[nic]) if rate is not None])
        ]
        found[gpu] = max(shares, default=np.nan)
    return found
