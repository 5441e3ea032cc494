"""Turns readings into samples: computes rates from counters and drops implausible values."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from roost_probe.driver.readings import DriverLoad, GpuLoad
from roost_proto.v1 import telemetry_pb2

Number = TypeVar("Number", int, float)

MOST_GPUS = 64  # the width of a column's present_mask

# Beyond these a value is a driver's sentinel or its garbage, not a measurement.
MOST_POWER_W = 10_000.0
MOST_TEMPERATURE_C = 200.0
MOST_CLOCK_HZ = 10e9
MOST_RATE_BYTES_PER_S = 10e12
MOST_MEMORY_BYTES = 1 << 46
MOST_COUNT = 1 << 62


class Sampler:
    """Makes one sample of each reading; keeps the last counters, to compute rates."""

    def __init__(self) -> None:
        self._last: DriverLoad | None = None

    def sample(self, load: DriverLoad) -> telemetry_pb2.Sample:
        """Pack a reading into a sample; the stream that sends it sets the sequence number."""
        gpus = load.gpus[:MOST_GPUS]

        def floats(
            read: Callable[[GpuLoad], float | None], most: float
        ) -> telemetry_pb2.FloatColumn:
            return _float_column([_plausible(read(gpu), most) for gpu in gpus])

        def counts(read: Callable[[GpuLoad], int | None], most: int) -> telemetry_pb2.UintColumn:
            return _uint_column([_plausible(read(gpu), most) for gpu in gpus])

        sample = telemetry_pb2.Sample(
            gpu_count=len(gpus),
            sm_frac=floats(lambda gpu: gpu.sm_frac, 1.0),
            memory_activity_frac=floats(lambda gpu: gpu.memory_activity_frac, 1.0),
            memory_used_bytes=counts(lambda gpu: gpu.memory_used_bytes, MOST_MEMORY_BYTES),
            power_w=floats(lambda gpu: gpu.power_w, MOST_POWER_W),
            temperature_c=floats(lambda gpu: gpu.temperature_c, MOST_TEMPERATURE_C),
            pcie_tx_bytes_per_s=self._rates(load, "pcie_tx_bytes"),
            pcie_rx_bytes_per_s=self._rates(load, "pcie_rx_bytes"),
            nvlink_tx_bytes_per_s=self._rates(load, "nvlink_tx_bytes"),
            nvlink_rx_bytes_per_s=self._rates(load, "nvlink_rx_bytes"),
            sm_clock_hz=floats(lambda gpu: gpu.sm_clock_hz, MOST_CLOCK_HZ),
            throttle_reasons=counts(lambda gpu: gpu.throttle_reasons, (1 << 64) - 1),
            ecc_uncorrected_count=counts(lambda gpu: gpu.ecc_uncorrected_count, MOST_COUNT),
            lost_mask=sum(1 << index for index, gpu in enumerate(gpus) if gpu.lost),
            xid_events=[
                telemetry_pb2.XidEvent(gpu_index=gpu, code=code)
                for gpu, code in load.xids
                if gpu < len(gpus) and 0 <= code < 1 << 32
            ],
        )
        self._last = load
        return sample

    def _rates(self, load: DriverLoad, counter: str) -> telemetry_pb2.FloatColumn:
        rates = list[float | None]()
        for index, gpu in enumerate(load.gpus[:MOST_GPUS]):
            stated: float | None = getattr(gpu, f"{counter}_per_s", None)
            rate = stated if stated is not None else self._rate(load, index, counter)
            rates.append(_plausible(rate, MOST_RATE_BYTES_PER_S))
        return _float_column(rates)

    def _rate(self, load: DriverLoad, index: int, counter: str) -> float | None:
        last = self._last
        if last is None or index >= len(last.gpus) or load.at_s <= last.at_s:
            return None
        now_bytes: int | None = getattr(load.gpus[index], counter)
        then_bytes: int | None = getattr(last.gpus[index], counter)
        if now_bytes is None or then_bytes is None or now_bytes > MOST_COUNT:
            return None  # a counter that stands at the end of its range says nothing
        return (now_bytes - then_bytes) / (load.at_s - last.at_s)  # a reset makes it negative


def silent_sample(gpu_count: int) -> telemetry_pb2.Sample:
    """Return a sample without values: the probe is alive, but the driver does not answer."""
    return telemetry_pb2.Sample(gpu_count=min(gpu_count, MOST_GPUS))


def _plausible(value: Number | None, most: float) -> Number | None:
    if value is None or not math.isfinite(value) or not 0 <= value <= most:
        return None
    return value


def _present_mask(values: Sequence[float | int | None]) -> int:
    return sum(1 << index for index, value in enumerate(values) if value is not None)


def _float_column(values: Sequence[float | None]) -> telemetry_pb2.FloatColumn:
    return telemetry_pb2.FloatColumn(
        present_mask=_present_mask(values), values=[v for v in values if v is not None]
    )


def _uint_column(values: Sequence[int | None]) -> telemetry_pb2.UintColumn:
    return telemetry_pb2.UintColumn(
        present_mask=_present_mask(values), values=[v for v in values if v is not None]
    )
