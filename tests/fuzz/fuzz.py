"""Feed made-up input to everything that reads what others wrote, for a given time.

`make fuzz` runs it: `python -m tests.fuzz.fuzz --seconds 60`. Inputs are good ones that Hypothesis
damages: bytes and lines are cut, doubled, swapped and replaced by hostile words. An input that
breaks a promise is made as small as possible, shown, and kept in tests/fuzz/seeds/ so that the
tests try it from then on.

Promises: only the expected errors are raised, and no input takes longer than its length allows.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from tests.fuzz.services import service_targets
from tests.fuzz.targets import SEEDS, Target, lua_target, targets

# CPU time. Reading costs microseconds a byte at most; the constant absorbs a garbage collection.
_LIMIT_S, _LIMIT_S_PER_BYTE = 0.5, 50e-6
# A virtual machine charges a program the time that its core was lent to others: the least counts.
_TRIES = 3
_LARGEST_BYTES = 200_000
_EXAMPLES_A_ROUND = 200
HOSTILE = (
    *(b"", b"\0", b"\xff\xfe", b"=" * 50, b" " * 1_000, b"[" * 400, b"]", b",", b"%", b"\x1f"),
    *(b"9" * 19, b"9" * 400, b"9" * 5_000, b"-1", b"1e400", b"nan", b"inf", b"4294967296"),
    *(b"n[1-99999999]", b"n[1-", b"0-999999999", b"gpu:", b"(IDX:5-1)", b"JobId=1 JobName=x"),
    *(b"9999-12-31T23:59:59", b"0001-01-01T00:00:00", b"9" * 15 + b"-00:00:00", b"\xe2\x80\xa8"),
    *(b"&a *a", b"!!python/object", b"{" * 100, b"? " * 100, b"<<: *b", b"\xd9\xa3"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that broke a promise.

    Attributes:
        target: the name of the target.
        data: the input.
        problem: the promise that it broke, in words.
        seed: with which it was drawn; None: it was kept earlier, or found by coverage.
    """

    target: str
    data: bytes
    problem: str
    seed: int | None = None

    def __str__(self) -> str:
        drawn = "" if self.seed is None else f" (seed {self.seed})"
        return f"{self.target}{drawn}: {self.problem}: {self.data!r}"


class Broken(Exception):
    """A target broke a promise."""


@st.composite
def damaged(draw: st.DrawFn, good: Sequence[bytes]) -> bytes:
    """Draw one of the good inputs with up to six changes, or any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    data = draw(st.sampled_from(good))
    for _ in range(draw(st.integers(1, 6))):
        data = _changed(draw, data)
    return data[:_LARGEST_BYTES]


def _changed(draw: st.DrawFn, data: bytes) -> bytes:
    begin = draw(st.integers(0, len(data)))
    end = min(begin + draw(st.sampled_from((0, 1, 2, 5, 20, 200))), len(data))
    match draw(st.sampled_from(("cut", "double", "hostile", "flip", "swap", "end"))):
        case "cut":
            return data[:begin] + data[end:]
        case "double":
            return data[:end] + data[begin:end] * draw(st.integers(1, 40)) + data[end:]
        case "hostile":
            return data[:begin] + draw(st.sampled_from(HOSTILE)) + data[end:]
        case "flip" if begin < len(data):
            flipped = data[begin] ^ (1 << draw(st.integers(0, 7)))
            return data[:begin] + bytes([flipped]) + data[begin + 1 :]
        case "swap":
            other = draw(st.integers(0, len(data)))
            return data[:begin] + data[other : other + end - begin] + data[end:]
        case _:
            return data[:begin]


def check(target: Target, data: bytes) -> None:
    """Give an input to a target.

    Raises:
        Broken: it raised an error that its callers do not expect, or took too long, each time.
    """
    took = list[float]()
    while len(took) < _TRIES:
        took.append(_read(target, data))
        if took[-1] <= _LIMIT_S + _LIMIT_S_PER_BYTE * len(data):
            return
    raise Broken(f"{len(data)} bytes took {min(took):.1f} s of CPU time")


def _read(target: Target, data: bytes) -> float:
    """Give an input to a target, and return the CPU time that it took, in seconds."""
    began_s = time.process_time()
    try:
        target.read(data)
    except target.expected:
        pass
    except (Exception, RecursionError) as error:
        raise Broken(f"{type(error).__name__}: {error}"[:300]) from error
    return time.process_time() - began_s


def fuzz_once(target: Target, count: int, number: int) -> Finding | None:
    """Try so many inputs on a target; return the smallest one that breaks it."""
    smallest: list[Finding] = []

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(damaged(target.seeds))
    def attempt(data: bytes) -> None:
        try:
            check(target, data)
        except Broken as error:
            smallest[:] = [Finding(target.name, data, str(error), number)]
            raise

    try:
        attempt()
    except Broken:
        return smallest[0]
    except Flaky:  # the same input, given again, broke nothing
        return replace(smallest[0], problem=f"once only: {smallest[0].problem}")
    return None


def kept_findings(target: Target) -> Iterator[Finding]:
    """Try the inputs that were kept."""
    for data in target.kept():
        try:
            check(target, data)
        except Broken as error:
            yield Finding(target.name, data, str(error))


@contextmanager
def all_targets() -> Iterator[list[Target]]:
    """Set up every target."""
    with lua_target() as lua, service_targets() as services:
        yield [*targets(), lua, *services]


def fuzz(
    seconds: float, number: int, say: Callable[[str], None], only: str = ""
) -> tuple[int, list[Finding]]:
    """Fuzz every target in turn until the time is over.

    Returns:
        How many inputs were tried, and what was found: one finding a target.
    """
    end_s, tried, found = time.monotonic() + seconds, 0, dict[str, Finding]()
    with all_targets() as every:
        chosen = [target for target in every if only in target.name]
        for target in chosen:
            for one in kept_findings(target):
                found[target.name] = one
        while time.monotonic() < end_s:
            for target in chosen:
                if target.name in found or time.monotonic() >= end_s:
                    continue
                finding = fuzz_once(target, _EXAMPLES_A_ROUND, number)
                tried += _EXAMPLES_A_ROUND
                if finding is not None:
                    found[target.name] = finding
                    say(str(finding))
            number += 1
            say(f"{tried} inputs on {len(chosen)} targets")
            if len(found) == len(chosen):
                break
    return tried, list(found.values())


def keep(finding: Finding) -> str:
    """Write an input to the seeds, and return its file."""
    folder = SEEDS / finding.target
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha256(finding.data).hexdigest()[:12]}.bin"
    file.write_bytes(finding.data)
    return str(file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command: 0 nothing was found, 1 something was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="default %(default)g")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="", help="only targets with this in their name")
    args = parser.parse_args(argv)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    tried, found = fuzz(args.seconds, args.seed, say, args.target)
    for finding in found:
        print(f"{finding}; kept as {keep(finding)}")
    print(f"{tried} inputs, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
