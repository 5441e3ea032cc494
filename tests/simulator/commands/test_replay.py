"""`roost-sim replay --policy`: refusals, and the same bytes in any process."""

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.events import NodeSeen
from roost_engine.testing.builders import node
from roost_sim.cli import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def test_what_is_wrong_with_the_policy_or_the_journal_is_one_line(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(NodeSeen(at_s=0.0, node=node("n1")))
    for policy, complaint in (
        ("fifa", "no policy 'fifa': did you mean fifo?"),
        ("sjf", "no job that waited for Roost has ended in it"),
    ):
        result = run(journal.path, "--policy", policy)
        assert (result.exit_code, result.stdout) == (2, "")
        assert complaint in result.stderr


def test_the_same_journal_and_policy_print_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    jobs = (arrival(str(n), n * 3.0, 20.0 + 7 * (n % 5), 1 + n % 8) for n in range(60))
    with WrittenJournal(tmp_path) as journal:
        journal.simulate(cluster(2), *jobs)
    printed = {
        subprocess.run(
            [sys.executable, "-m", "roost_sim.cli", "replay", str(journal.path), *arguments],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4242")
        for arguments in [("--policy", "random-order", "--seed", "3", "--json")]
    }
    assert len(printed) == 1
    assert json.loads(printed.pop())["simulated"]["figures"]["jobs"] == 60
