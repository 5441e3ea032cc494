"""Every block of commands in the pages is run, here or by a named test, or says why it is not."""

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.docs.command_bed import NODES, PROGRAMS, SETTINGS, Bed, Cluster, needs_cluster, start
from tests.docs.commands import REASONS, ROOT, Block, blocks, blocks_of, calls

from roost_demo.stack import Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable

BLOCKS = list(blocks())
RUN_HERE = [block for block in BLOCKS if block.is_for_the_walker]
MAINS = {
    "roostctl": "roostctl.main",
    "roostd": "roostd.cli",
    "roost-probe": "roost_probe.cli",
    "roost-progress": "roost_probe.progress",
    "roost-slurm": "roost_slurm.cli",
    "roost-sim": "roost_sim.cli",
    "roost-train": "roost_train.cli",
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of few and small jobs."""
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    command = "trace generate --like helios --jobs 60 --max-gpus 8 --seed 0 -o"
    subprocess.run(
        [PROGRAMS / "roost-sim", *command.split(), str(path)], check=True, capture_output=True
    )
    return path


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        with Stack(NODES, settings=SETTINGS) as stack:
            yield start(stack)
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.mark.slurm
@pytest.mark.nvml
@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", RUN_HERE, ids=lambda block: block.where)
def test_a_block_runs(
    block: Block, jobs: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here = request.getfixturevalue("cluster") if needs_cluster(block.script) else None
    bed = Bed(tmp_path, jobs, here)
    done = bed.run(block.script)
    expected = int(block.marks.get("exits with", "0"))
    told = f"{bed.changed(block.script)}\n{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}"
    assert done.returncode == expected, told


def test_blocks_that_are_not_run_say_why_with_one_of_a_few_reasons() -> None:
    reasons = [block.marks["not run"] for block in BLOCKS if "not run" in block.marks]
    assert set(reasons) <= set(REASONS)


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if "run by" in one.marks], ids=lambda block: block.where
)
def test_what_a_block_is_run_by_exists_and_runs_such_a_program(block: Block) -> None:
    path = ROOT / block.marks["run by"]
    text = path.read_text()
    words = {word for word in re.findall(r"[\w-]+", block.script) if len(word) > 3}
    assert len(words & set(re.findall(r"[\w-]+", text))) >= 2, path


def test_the_blocks_of_the_installation_are_run_on_machines_with_systemd() -> None:
    tests = "".join(
        (ROOT / "tests" / "e2e" / f"{name}.py").read_text()
        for name in ("test_packages", "test_virtual_environment")
    )
    named = {block.marks["test"] for block in BLOCKS if "test" in block.marks}
    assert len(named) > 8
    assert {name for name in named if f'run(site, "{name}"' not in tests} == set()


def test_most_blocks_are_run() -> None:
    assert len(RUN_HERE) > 20
    left_out = [block.where for block in BLOCKS if "not run" in block.marks]
    assert len([where for where in left_out if not where.startswith("docs/results/")]) <= 3


@cache
def help_of(program: str, words: tuple[str, ...]) -> str:
    """What `program words --help` prints; "" where there is no such command."""
    told, before = io.StringIO(), sys.argv
    sys.argv = [program, *words, "--help"]
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO()):
            import_module(MAINS[program]).main()
    except SystemExit as end:
        return "" if end.code else told.getvalue()
    finally:
        sys.argv = before
    return told.getvalue()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_every_option_exists(block: Block) -> None:
    for program, words in calls(block.script):
        named = tuple(word for word in words[:2] if re.fullmatch(r"[a-z][a-z-]*", word))
        text = next(filter(None, (help_of(program, named[:count]) for count in (2, 1, 0))))
        assert len(named) == 0 or help_of(program, named[:1]) or words[0].startswith("-"), words
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{re.escape(option)}\b", text), (program, words)


def test_blocks_are_found_with_and_without_prompts() -> None:
    page = """
<!-- exits with: 1 -->
```console
# roostctl status
roostd 0.1.0
# roost-sim run \\
    --json
```

<!-- not run: hours -->

    roost-sim policies

```bash
sleep 1
```
"""
    first, second, third = blocks_of("page.md", page)
    assert first == Block(
        "page.md:2", "roostctl status\nroost-sim run \\\n    --json\n", {"exits with": "1"}
    )
    assert list(calls(first.script)) == [("roostctl", ["status"]), ("roost-sim", ["run", "--json"])]
    assert (second.script, second.is_for_the_walker) == ("roost-sim policies\n", False)
    assert (third.script, third.is_for_the_walker) == ("sleep 1\n", True)
