"""What the Tab key offers."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from roostctl.main import cli
from roostctl.options.completion import job_ids
from roostctl.testing import FakeOperator, build_node


def complete(line: str, **env: str) -> list[str]:
    """Ask as bash's script does: the words so far, the last one being completed."""
    words = line.split(" ")
    result = CliRunner().invoke(
        cli,
        prog_name="roostctl",
        env={
            "_ROOSTCTL_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **env,
        },
    )
    assert result.exit_code == 0, result.output
    return [answer.partition(",")[2] for answer in result.stdout.splitlines() if answer]


def test_offers_commands() -> None:
    assert complete("roostctl no") == ["node", "nodes"]


@pytest.mark.parametrize("command", ["node", "topology"])
def test_offers_node_names(command: str, cluster: FakeOperator, address: str) -> None:
    assert complete(f"roostctl --daemon {address} {command} gpu") == ["gpu1", "gpu2", "gpu3"]


@pytest.mark.parametrize("command", ["job", "explain"])
def test_offers_job_ids(command: str, cluster: FakeOperator, address: str) -> None:
    offered = complete(f"roostctl {command} 471", ROOST_DAEMON=address)
    assert offered == ["4711", "4713", "4714", "4715"]


def test_offers_nothing_when_the_daemon_is_away(tmp_path: Path) -> None:
    assert complete("roostctl node g", ROOST_DAEMON=f"unix:{tmp_path}/none.sock") == []


def test_does_not_offer_names_that_would_need_escaping(
    operator: FakeOperator, address: str
) -> None:
    operator.add_node(build_node("gpu1\x1b[2J"))
    assert complete("roostctl node gpu", ROOST_DAEMON=address) == []


def test_job_ids_come_with_their_state_as_help(cluster: FakeOperator, address: str) -> None:
    ctx = click.Context(cli)
    ctx.params["daemon"] = address
    offered = job_ids(ctx, click.Argument(["job_id"]), "470")
    assert [(item.value, item.help) for item in offered] == [("4700", "ended")]
