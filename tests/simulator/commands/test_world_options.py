"""Options of the world: refusals, and what a regime sets."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.simulator.program import document, run

from roost_sim.commands.world_options import world_options
from roost_sim.worlds.world_spec import WorldSpec


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--seed", -1), "--seed"),
        (("--regime", "lab"), "--regime"),
        (("--exclude-model", "bret"), "no model 'bret'; there are a2c, bert"),
        (("--compute-scale", 0), "--compute-scale"),
        (("--congestion", 0.5), "--congestion"),
        (("--full-speed", "--speed", "dally"), "exclude each other"),
    ],
)
def test_a_world_that_cannot_be_is_refused(
    trace: Path, cluster: Path, options: tuple[object, ...], complaint: str
) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, *options)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_reports_of_speeds_can_be_left_out() -> None:
    worlds: list[WorldSpec] = []

    @click.command()
    @world_options
    def command(world: WorldSpec) -> None:
        worlds.append(world)

    for arguments in ([], ["--no-speed-reports"]):
        assert CliRunner().invoke(command, arguments).exit_code == 0
    assert [world.reports_speed for world in worlds] == [True, False]


def test_a_regime_sets_what_its_switches_do_not(trace: Path, cluster: Path) -> None:
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--policy", "sjf", "--json")
    told = [
        document(run(*arguments, *options))["regime"]
        for options in (
            (),
            ("--regime", "paper"),
            ("--regime", "field"),
            ("--regime", "field", "--durations", "limit"),
        )
    ]
    assert told == ["oracle", "oracle", "predicted", "limit"]
