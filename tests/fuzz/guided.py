"""Fuzz the parsers, the codec, the Lua script and YAML, guided by coverage, with atheris.

`make fuzz` runs it after tests.fuzz.fuzz, where atheris installs. libFuzzer ends its process with
the time or with the first finding, so each target has a process of its own. An input that breaks a
promise is kept in tests/fuzz/seeds/.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_START_S = 300.0  # instrumenting, on a busy machine
_LARGEST_BYTES = 20_000
_INSTRUMENTED = ("roost_slurm", "roost_formats", "roostd.telemetry", "roostd.config")
_FOUND = 77  # libFuzzer's exit code for a finding


def fuzz_one(name: str, seconds: float, folder: Path) -> None:
    """Fuzz one target in this process, and end the process.

    Args:
        name: of the target.
        seconds: of fuzzing.
        folder: an empty folder: seeds are written there, and a finding.
    """
    import atheris

    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        from tests.fuzz.fuzz import check
        from tests.fuzz.targets import lua_target, targets

    corpus = folder / "corpus"
    corpus.mkdir()
    with lua_target() as lua:
        target = next(one for one in (*targets(), lua) if one.name == name)
        for number, seed in enumerate([*target.seeds, *target.kept()]):
            (corpus / str(number)).write_bytes(seed)
        options = (
            f"-max_total_time={max(round(seconds), 1)}",
            f"-max_len={_LARGEST_BYTES}",
            f"-artifact_prefix={folder}/",
            f"-error_exitcode={_FOUND}",
            "-rss_limit_mb=0",
        )
        atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: check(target, data))
        atheris.Fuzz()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command: 0 nothing was found, 1 something was; 0 too where atheris is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all; default %(default)g")
    parser.add_argument("--target", default="", help="only targets with this in their name")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        fuzz_one(args.one, args.seconds, args.folder)
        return 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("atheris is not installed: no fuzzing by coverage")
        return 0
    return fuzz_all(args.seconds, args.target)


def fuzz_all(seconds: float, only: str) -> int:
    """Fuzz each target in a process of its own; return 1 where one broke a promise."""
    from tests.fuzz.fuzz import Finding, keep
    from tests.fuzz.targets import targets

    names = [name for name in (*(one.name for one in targets()), "lua") if only in name]
    is_broken = False
    for name in names:
        with tempfile.TemporaryDirectory(prefix="roost-fuzz-") as text:
            folder, share_s = Path(text), seconds / len(names)
            options = ("--one", name, "--seconds", str(share_s), "--folder", text)
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "tests.fuzz.guided", *options],
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=share_s + _START_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                print(f"{name}: no end after {error.timeout:.0f} s", flush=True)
                is_broken = True
                continue
            for file in [path for path in folder.iterdir() if path.is_file()]:
                kept = keep(Finding(name, file.read_bytes(), "found by coverage"))
                print(f"{name}: {_last_words(done.stderr)}; kept as {kept}")
            is_broken |= done.returncode != 0
            print(f"{name}: {_count(done.stderr)}", flush=True)
            if done.returncode not in (0, _FOUND):
                print(done.stderr[-2_000:])
    return 1 if is_broken else 0


def _last_words(log: str) -> str:
    lines = [line for line in log.splitlines() if "Broken:" in line or "Error" in line]
    return lines[-1][:300] if lines else "a finding"


def _count(log: str) -> str:
    lines = [line for line in log.splitlines() if line.startswith("Done ") or " cov: " in line]
    return lines[-1].strip() if lines else "ended at once"


if __name__ == "__main__":
    sys.exit(main())
