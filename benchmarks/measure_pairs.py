"""Training loops of nine kinds alone and in pairs on one GPU: where the pairs of ours come from.

    python benchmarks/measure_pairs.py --seconds 150 --out DIR

Each kind runs with two batch sizes; of the small ones a second runs too, as a partner of the same
kind. Pairs are measured in a random order until the time is up; each row is written at once, so
what is cut off is missing. While a loop runs alone, its load is read as roost-probe reads it.
`--mps`: the loops are clients of an MPS server that runs already. Files: alone.csv and pairs.csv,
as training/roost_train/interference/measured has them. For your own programs: `roost-train pairs`.
"""

import argparse
import csv
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import _harness

from roost_probe.driver.nvml import Nvml
from roost_probe.node.sampler import Sampler
from roost_probe.show import sample_rows
from roost_train.errors import TrainError
from roost_train.pairs.pair_measuring import Window, measure, pairs_of
from roost_train.pairs.pair_process import TrainingProcess

BATCHES = {
    "cnn": (32, 256),
    "transformer": (4, 32),
    "lstm": (16, 256),
    "recommender": (2048, 32768),
    "graph": (300_000, 3_000_000),
    "elementwise": (4_000_000, 64_000_000),
    "products": (512, 8192),
    "policy": (64, 1024),
    "pictures": (64, 512),
}
LOADS = (
    "sm_frac",
    "memory_activity_frac",
    "power_w",
    "sm_clock_hz",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
)
ALONE_COLUMNS = ("mps", "model", "batch", "steps_per_s", "memory_bytes", *LOADS)
PAIR_COLUMNS = ("mps", "model_a", "batch_a", "model_b", "batch_b", "steps_per_s_a", "steps_per_s_b")
Key: TypeAlias = tuple[str, int]
_KINDS = Path(__file__).with_name("pair_kinds.py")
_SAMPLE_S = 0.25
_STEADY_S = 1.0  # counters of the driver are means over up to a second


class LoadReader:
    """Reads the load of the first GPU in a thread, as the probe does."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml, self._is_over = nvml, threading.Event()
        self._rows = list[dict[str, float | int | None]]()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "LoadReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def means(self) -> dict[str, float | None]:
        """Return the mean of each column; None: the driver does not say."""
        self.__exit__()
        found = dict[str, float | None]()
        for name in LOADS:
            values = [value for row in self._rows if (value := row[name]) is not None]
            found[name] = sum(values) / len(values) if values else None
        return found

    def _read(self) -> None:
        sampler = Sampler()
        self._is_over.wait(_STEADY_S)
        sampler.sample(self._nvml.load())
        while not self._is_over.wait(_SAMPLE_S):
            self._rows += sample_rows(sampler.sample(self._nvml.load()))[:1]


def start(
    kinds: Sequence[Key], stack: ExitStack, device: str, timeout_s: float
) -> list[TrainingProcess | None]:
    """Start loops, wait until they train, and stop them; None: it failed."""
    started = list[TrainingProcess]()
    for kind, batch in kinds:
        words = [sys.executable, str(_KINDS), kind, str(batch), "--device", device]
        process = TrainingProcess(f"{kind} {batch}", f"exec {shlex.join(words)}")
        stack.callback(process.end)
        started.append(process)
    end_s, found = time.monotonic() + timeout_s, list[TrainingProcess | None]()
    for process in started:
        try:
            process.wait_until_training(max(end_s - time.monotonic(), 0.1))
            found.append(process)
        except TrainError as error:
            found.append(None)
            _say(f"left out: {error}")
        process.stop()
    return found


def measure_all(options: argparse.Namespace) -> None:
    """Write both tables."""
    end_s = time.monotonic() + options.seconds
    kinds = [(kind, batch) for kind, pair in BATCHES.items() for batch in pair][: options.kinds]
    small = [(kind, batch) for kind, batch in kinds if batch == BATCHES[kind][0]]
    window = Window(options.settle_s, options.window_s)
    with ExitStack() as stack:
        loops = start([*kinds, *small], stack, options.device, options.start_s)
        fleet, second = (
            {key: loop for key, loop in zip(keys, part, strict=True) if loop is not None}
            for keys, part in ((kinds, loops[: len(kinds)]), (small, loops[len(kinds) :]))
        )
        _say(f"{len(fleet)} and {len(second)} loops train")
        alone = _Table(options.out / "alone.csv", ALONE_COLUMNS, stack)
        nvml = Nvml() if options.device != "cpu" and not options.mps else None
        for key, process in list(fleet.items()):
            try:
                loads, rate = _alone(process, window, nvml)
            except TrainError as error:
                _say(f"left out: {error}")
                del fleet[key]
                continue
            alone.add([int(options.mps), *key, rate, _memory(process), *loads])
        pairs = _Table(options.out / "pairs.csv", PAIR_COLUMNS, stack)
        order = pairs_of(fleet, [key for key in second if key in fleet])
        random.Random(options.seed).shuffle(order)
        for a, b in order:
            if time.monotonic() > end_s:
                break
            partner = second[b] if a == b else fleet[b]
            try:
                rates = measure([fleet[a], partner], window)
            except TrainError as error:
                _say(f"left out: {error}")
                continue
            pairs.add([int(options.mps), *a, *b, *rates])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _alone(
    process: TrainingProcess, window: Window, nvml: Nvml | None
) -> tuple[list[float | None], float]:
    if nvml is None:
        return [None] * len(LOADS), measure([process], window)[0]
    with LoadReader(nvml) as reader:
        rate = measure([process], Window(window.settle_s, 2 * _STEADY_S))[0]
        return list(reader.means().values()), rate


def _memory(process: TrainingProcess) -> int | None:
    found = re.search(r"memory (\d+)", process.first_line)
    return None if found is None else int(found.group(1))


class _Table:
    def __init__(self, path: Path, columns: Sequence[str], stack: ExitStack) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = stack.enter_context(path.open("w", newline="", encoding="utf-8"))
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(columns)

    def add(self, values: Sequence[Any]) -> None:
        """Write a row at once: the time may be up at any moment."""
        self._writer.writerow(
            ["" if v is None else f"{v:.6g}" if isinstance(v, float) else v for v in values]
        )
        self._file.flush()


def about() -> str:
    """Return the GPU, driver and torch of this machine."""
    import torch

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        gpu = "no GPU"
    return f"{gpu}, torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=_harness.number, default=600.0, help="after which no pair begins"
    )
    parser.add_argument(
        "--settle-s", type=_harness.number_or_0, default=0.15, help="of a pair, not counted"
    )
    parser.add_argument("--window-s", type=_harness.number, default=0.5, help="of a pair, counted")
    parser.add_argument(
        "--start-s", type=_harness.number, default=120.0, help="for all loops to be warm"
    )
    parser.add_argument("--kinds", type=_harness.whole, default=None, help="only the first")
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--seed", type=_harness.whole_or_0, default=0, help="of the order of the pairs"
    )
    parser.add_argument("--mps", action="store_true", help="say in the tables that MPS is on")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the loops end too
    print(about(), flush=True)
    measure_all(options)


if __name__ == "__main__":
    main()
