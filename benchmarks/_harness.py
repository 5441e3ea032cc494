"""What the benchmarks share: timing, percentiles, the machine, and how figures are printed."""

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np

_MOST_DIGITS = 10
_LIBRARIES = ("roost", "numpy", "onnxruntime", "grpcio")


def whole(text: str) -> int:
    """Return a number of things from the command line: 1 or more."""
    return _whole(text, 1)


def whole_or_0(text: str) -> int:
    """Return a number of things from the command line that may be 0, or a seed."""
    return _whole(text, 0)


def number(text: str) -> float:
    """Return a quantity from the command line, such as seconds: above 0."""
    if (value := _number(text)) <= 0.0:
        raise argparse.ArgumentTypeError(f"{text}: want above 0")
    return value


def number_or_0(text: str) -> float:
    """Return a quantity from the command line that may be 0."""
    if (value := _number(text)) < 0.0:
        raise argparse.ArgumentTypeError(f"{text}: want 0 or more")
    return value


def stop_on_signals() -> None:
    """End by SystemExit at SIGTERM and SIGHUP, so that clusters and daemons are stopped too."""
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda number, _: sys.exit(128 + number))


def report(figures: Mapping[str, object], *, as_json: bool) -> None:
    """Print the figures and the machine they were taken on.

    Args:
        figures: by name, units at the end of each name.
        as_json: one JSON object on one line; else a line a figure, for people.
    """
    everything = {**figures, "machine": machine()}
    if as_json:
        print(json.dumps(everything))
        return
    for name, value in everything.items():
        print(f"{name:>24}  {f'{value:.6g}' if isinstance(value, float) else value}")


def machine() -> dict[str, object]:
    """Describe this machine: processor, usable cores, memory, versions."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
    }


def timings_s(
    action: Callable[[], object],
    count: int,
    warm_up_count: int = 10,
    before: Callable[[], object] | None = None,
) -> list[float]:
    """Seconds of each of `count` calls, after warm-up calls that are not timed.

    Args:
        action: what is timed.
        count: how often.
        warm_up_count: how often before that.
        before: called before each call, and not timed.
    """
    seconds = list[float]()
    for turn in range(-warm_up_count, count):
        if before is not None:
            before()
        began_s = time.perf_counter()
        action()
        if turn >= 0:
            seconds.append(time.perf_counter() - began_s)
    return seconds


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed."""
    return float(np.percentile(values, percent))


def peak_rss_mb() -> float:
    """Return the most memory that this process has held, in MiB.

    Not getrusage's: that counts the process which started this one, too.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak_kib = int(status.split("VmHWM:")[1].split()[0])
    return round(peak_kib / 1024, 1)


def _whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise argparse.ArgumentTypeError(f"{text}: want a whole number, {least} or more")
    if int(text) < least:
        raise argparse.ArgumentTypeError(f"{text}: want {least} or more")
    return int(text)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: want a number") from error
    if not isfinite(value):
        raise argparse.ArgumentTypeError(f"{text}: want a finite number")
    return value


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
