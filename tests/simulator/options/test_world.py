"""Options of the world: refusals, and what a regime sets."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.simulator.program import document, run

from roost_formats.testing.run_time_models import install_run_times
from roost_sim.options.world import world_options
from roost_sim.worlds.prediction_spec import PredictionSpec
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


def test_predictions_may_be_wrong_old_foreign_and_of_a_model(trace: Path, tmp_path: Path) -> None:
    model = install_run_times(tmp_path / "model")
    worlds: list[WorldSpec] = []

    @click.command()
    @world_options
    def command(world: WorldSpec) -> None:
        worlds.append(world)

    options = ["--prediction-noise", "1", "--prediction-stale", "60"]
    options += ["--prediction-from", str(trace), "--run-time-model", str(model)]
    for arguments in ([], ["--run-time-model", "none"], options):
        assert CliRunner().invoke(command, arguments).exit_code == 0
    plain, none, altered = (world.predictions for world in worlds)
    assert plain == none == PredictionSpec()
    assert (altered.sigma, altered.stale_s, altered.model) == (1.0, 60.0, model)
    assert altered.other_site is not None
    assert "all" in altered.other_site.history.kinds
    assert altered.model_name.startswith("onnx:")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--prediction-from", "no.csv"), "no.csv: No such file"),
        (("--run-time-model", "no.onnx"), "--run-time-model no.onnx: no.json cannot be read"),
        (("--prediction-stale", -1), "--prediction-stale"),
    ],
)
def test_files_of_predictions_that_cannot_be_read_are_named(
    trace: Path, cluster: Path, options: tuple[object, ...], complaint: str
) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, *options)
    assert result.exit_code == 2
    assert complaint in result.stderr


@pytest.mark.parametrize("kind", ["model", "foreign", "stale"])
def test_predictions_change_what_the_learned_order_does(
    cluster: Path, tmp_path: Path, kind: str
) -> None:
    trace = tmp_path / "users.csv"
    rows = [f"{60 * n},{10 * 7 ** (n % 4)},{8 if n % 3 else 4},u{n % 4}" for n in range(80)]
    trace.write_text("\n".join(["submit_s,duration_s,num_gpus,user", *rows]) + "\n")
    options = {
        "model": ("--run-time-model", install_run_times(tmp_path / "model", band=3)),
        "foreign": ("--prediction-from", trace),
        "stale": ("--prediction-stale", 1e6),
    }[kind]
    arguments = ("run", "--trace", trace, "--cluster", cluster, "--load", 3, "--json")
    policy = ("--policy", "learned+strict")
    plain, altered = (
        document(run(*arguments, *policy, *more))["avg_jct_s"] for more in ((), options)
    )
    assert plain != altered


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


def test_links_inside_a_node_can_be_left_out() -> None:
    worlds: list[WorldSpec] = []

    @click.command()
    @world_options
    def command(world: WorldSpec) -> None:
        worlds.append(world)

    for arguments in ([], ["--no-links"], ["--regime", "paper"], ["--regime", "paper", "--links"]):
        assert CliRunner().invoke(command, arguments).exit_code == 0
    assert [world.fidelity.has_links for world in worlds] == [True, False, False, True]
