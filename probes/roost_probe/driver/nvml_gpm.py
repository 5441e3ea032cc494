"""PCIe rates from the performance monitor of Hopper GPUs and later ones (NVML calls it GPM).

An H200 has PCIe byte counters of 32 bits, which wrap within a tenth of a second at full rate
(driver 580.159.04). The monitor counts between two samples, and reading it watches nothing.
"""

from typing import Any

import pynvml

_MIB = float(1 << 20)
_METRICS = {
    "pcie_tx_bytes_per_s": pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,  # both in MiB/s
    "pcie_rx_bytes_per_s": pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
}


class GpmRates:
    """The monitor of one GPU; keeps its last sample.

    Args:
        device: the GPU's handle.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._old: Any = None
        self._new: Any = None
        self._is_filled = False  # the new sample

    def read(self) -> dict[str, float]:
        """Return mean rates since the last call, by field of GpuLoad.

        The first call has none, nor has one that follows a failure.

        Raises:
            NVMLError: the driver or the GPU has no monitor, or does not allow it.
        """
        if self._new is None:
            self._old, self._new = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
        self._old, self._new = self._new, self._old
        # Between samples of which one was never taken the driver's rates mean nothing.
        has_old, self._is_filled = self._is_filled, False
        pynvml.nvmlGpmSampleGet(self._device, self._new)
        self._is_filled = True
        return self._between() if has_old else {}

    def close(self) -> None:
        """Give the two samples back.

        Raises:
            NVMLError: the driver is gone.
        """
        samples, self._old, self._new, self._is_filled = (self._old, self._new), None, None, False
        for sample in samples:
            if sample is not None:
                pynvml.nvmlGpmSampleFree(sample)

    def _between(self) -> dict[str, float]:
        asked = pynvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(_METRICS)
        asked.sample1, asked.sample2 = self._old, self._new
        for answer, metric in zip(asked.metrics, _METRICS.values(), strict=False):
            answer.metricId = metric
        pynvml.nvmlGpmMetricsGet(asked)
        return {
            name: answer.value * _MIB
            for name, answer in zip(_METRICS, asked.metrics, strict=False)
            if answer.nvmlReturn == pynvml.NVML_SUCCESS
        }


def has_monitor(device: Any) -> bool:
    """Return whether the GPU has one.

    Raises:
        NVMLError: the driver has none.
    """
    return bool(pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice)
