"""Traffic of network cards: byte counters of sysfs, turned into rates.

InfiniBand devices, RoCE among them, count words of four bytes a port (`port_xmit_data`, as the
InfiniBand specification defines it); net devices count bytes. A card that cannot be read is
absent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roost_probe.node.nic import Nic
from roost_proto.v1 import telemetry_pb2

_WORD_BYTES = 4
_FULL = ((1 << 32) - 1, (1 << 64) - 1)
_MOST_BYTES_PER_S = 10e12  # beyond this it is a counter's jump, not a measurement


@dataclass(frozen=True, slots=True)
class _Counts:
    at_s: float
    sent_bytes: int
    received_bytes: int


class NicCounters:
    """Reads the counters of the node's cards; keeps the last reading, to compute rates."""

    def __init__(self) -> None:
        self._last: dict[str, _Counts] = {}

    def add_to(self, sample: telemetry_pb2.Sample, nics: Sequence[Nic], at_s: float) -> None:
        """Write the rates since the last call into a sample.

        Args:
            sample: its NIC columns are filled in.
            nics: as in the Hello.
            at_s: monotonic clock.
        """
        last, self._last = self._last, {}
        for position, nic in enumerate(nics):
            now = _read(nic.entry, at_s)
            if now is None:
                continue
            self._last[nic.name] = now
            before = last.get(nic.name)
            if before is None or now.at_s <= before.at_s:
                continue
            elapsed_s = now.at_s - before.at_s
            sent = (now.sent_bytes - before.sent_bytes) / elapsed_s
            received = (now.received_bytes - before.received_bytes) / elapsed_s
            _put(sample.nic_tx_bytes_per_s, position, sent)
            _put(sample.nic_rx_bytes_per_s, position, received)


def _put(column: telemetry_pb2.FloatColumn, position: int, rate: float) -> None:
    if 0 <= rate <= _MOST_BYTES_PER_S:  # a reset makes it negative
        column.present_mask |= 1 << position
        column.values.append(rate)


def _read(entry: Path, at_s: float) -> _Counts | None:
    try:
        ports = sorted((entry / "ports").iterdir()) if (entry / "ports").is_dir() else []
        if ports:
            counters = [port / "counters" for port in ports]
            sent = sum(_words(folder / "port_xmit_data") for folder in counters)
            received = sum(_words(folder / "port_rcv_data") for folder in counters)
            return _Counts(at_s, sent * _WORD_BYTES, received * _WORD_BYTES)
        folder = entry / "statistics"
        return _Counts(at_s, _number(folder / "tx_bytes"), _number(folder / "rx_bytes"))
    except (OSError, ValueError):
        return None


def _words(file: Path) -> int:
    """Return a port's count of words.

    Raises:
        ValueError: it stands at its end: cards without 64-bit counters stop there until a reset,
            and would look idle for ever.
    """
    count = _number(file)
    if count in _FULL:
        raise ValueError(f"{file} is full")
    return count


def _number(file: Path) -> int:
    return int(file.read_text())
