"""The options of roost-train's commands: defaults that the commands rely on."""

import argparse

import pytest

from roost_train.commands import options


@pytest.mark.parametrize(
    ("add", "argv"),
    [
        (options.add_distil, ["--output", "d", "--steps", "-1"]),
        (options.add_distil, ["--output", "d", "--seed", "-1"]),
        (options.add_interference, ["--data", "d", "--seed", "4294967296"]),
        (options.add_graph, ["--output", "d", "--seed", "1.5"]),
        (options.add_pairs, ["--commands", "c", "--out", "o", "--seconds", "0"]),
        (options.add_pairs, ["--commands", "c", "--out", "o", "--settle", "nan"]),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    add: options.AddOptions, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(argv)
    assert f"argument {argv[-2]}: {argv[-1]}: want" in capsys.readouterr().err


@pytest.mark.parametrize("add", [options.add_runtimes, options.add_warmstart])
def test_jobs_come_from_one_source(
    add: options.AddOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add(parser)
    assert str(parser.parse_args(["--trace", "t.csv", "--out", "d"]).trace) == "t.csv"
    for argv in (["--out", "d"], ["--trace", "t.csv", "--sacct", "s.txt", "--out", "d"]):
        with pytest.raises(SystemExit):
            parser.parse_args(argv)
    assert "not allowed with" in capsys.readouterr().err
