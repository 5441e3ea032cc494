"""What the benchmarks take from the command line, and how they end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest.py", "--nodes", "0"),
        ("ingest.py", "--seconds", "0"),
        ("slurm_load.py", "--burst", "0"),
        ("simulate.py", "--seed", "-1"),
        ("soak.py", "--minutes", "nan"),
        ("soak.py", "--minutes", "two"),
        ("waiting.py", "--jobs", "9" * 5000),
    ],
)
def test_a_number_that_cannot_be_measured_is_one_line(arguments: tuple[str, ...]) -> None:
    """A count of 0 ended in a traceback, in some after minutes."""
    name, option, text = arguments
    said = subprocess.run(
        [sys.executable, BENCHMARKS / name, option, text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 2
    assert said.stderr.splitlines()[-1].startswith(
        f"{name}: error: argument {option}: {text}: want"
    )


def test_no_benchmark_takes_a_number_unchecked() -> None:
    inner = {"_bare_reader.py", "_stand_in_daemon.py"}  # a benchmark starts them
    unchecked = [
        path.name
        for path in BENCHMARKS.glob("*.py")
        if path.name not in inner
        and "argparse" in (text := path.read_text(encoding="utf-8"))
        and ("type=int" in text or "type=float" in text)
    ]
    assert unchecked == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_a_benchmark_has_started(sign: signal.Signals) -> None:
    """A benchmark that was stopped left its clusters running."""
    program = """
import contextlib, signal, _harness
_harness.stop_on_signals()
with contextlib.ExitStack() as stack:
    stack.callback(print, "stopped")
    print("started", flush=True)
    signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=BENCHMARKS, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(sign)
        assert process.communicate(timeout=120)[0] == "stopped\n"
    assert process.returncode == 128 + sign


def test_the_peak_of_memory_is_that_of_the_process_alone() -> None:
    ballast = bytearray(b"1") * (300 * 2**20)  # getrusage would count it for the child, too
    program = "import _harness; print(_harness.peak_rss_mb())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=True
    )
    assert 5.0 < float(done.stdout) < len(ballast) / 2**20
