"""Shell completion of commands, policies and presets."""

from click.testing import CliRunner

from roost_sim.cli import cli
from roost_sim.clusters.presets import PRESET_NAMES


def complete(line: str) -> list[str]:
    """Ask as bash's script does: the words so far, the last one being completed."""
    result = CliRunner().invoke(
        cli,
        prog_name="roost-sim",
        env={
            "_ROOST_SIM_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
    )
    assert result.exit_code == 0, result.output
    return [answer.partition(",")[2] for answer in result.stdout.splitlines() if answer]


def test_tab_offers_commands_policies_and_presets() -> None:
    assert complete("roost-sim repl") == ["replay"]
    assert {"fifo", "sjf"} <= set(complete("roost-sim run --policy "))
    assert complete("roost-sim run --cluster dgx") == ["dgx-pod", "dgx"]
    assert set(PRESET_NAMES) <= set(complete("roost-sim bound --cluster "))


def test_tab_completes_the_next_part_and_the_next_name() -> None:
    assert "sjf+strict" in complete("roost-sim replay --policy sjf+st")
    assert complete("roost-sim replay --policy sjf+strict+bl") == ["sjf+strict+block"]
    assert complete("roost-sim replay --policy sjf+strict+block+none+") == []
    assert "fifo,sjf" in complete("roost-sim compare --policies fifo,sj")
    assert "fifo,sjf+strict" in complete("roost-sim compare --policies fifo,sjf+stri")
