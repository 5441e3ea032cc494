"""`roost-train pairs`: from a file of commands to the table that roostd reads."""

from pathlib import Path

import pytest
from tests.training.pair_programs import ending, stepping

from roost_train.cli import main
from roost_train.commands.pairs_command import PairsOptions, read_commands, run, write_table
from roost_train.errors import TrainError
from roost_train.pairs.pair_measuring import PairRow, Window
from roostd.config.pair_file import load_pairs


def _options(folder: Path, commands: str, **more: object) -> PairsOptions:
    (folder / "commands").write_text(commands, encoding="utf-8")
    found = {"rounds": 2, "window": Window(0.0, 0.1), "start_s": 60.0} | more
    return PairsOptions(commands=folder / "commands", out=folder / "pairs.csv", **found)  # type: ignore[arg-type]


def test_roostd_reads_the_table_that_was_measured(tmp_path: Path) -> None:
    lines = list[str]()
    commands = f"# two\nbert: {stepping(0.01)}\n\nncf: {stepping(0.02)}\n"

    said = run(_options(tmp_path, commands), lines.append)

    found = load_pairs(tmp_path / "pairs.csv")
    assert {(pair.model, pair.beside) for pair in found} == {
        (a, b) for a in ("bert", "ncf") for b in ("bert", "ncf")
    }
    assert all(0 < pair.speed_frac <= 1 for pair in found)
    assert said == f"4 ordered pairs of 2 programs: {tmp_path / 'pairs.csv'}"
    assert lines[0].startswith("2 programs, 3 pairs, about 0 minutes")
    assert len(lines) == 1 + 2 * (2 + 2 * 3)


@pytest.mark.torch
def test_the_command_line_measures_as_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="needs torch (the train extra)")
    options = _options(tmp_path, f"bert: {stepping(0.01, 'batch {}')}\n")
    files = ["--commands", str(options.commands), "--out", str(options.out)]

    code = main(
        ["pairs", *files, "--rounds=2", "--seconds=0.1", "--settle=0", r"--pattern=batch (\d+)"]
    )

    told = capsys.readouterr()
    assert code == 0, told.err
    assert told.out == f"1 ordered pairs of 1 programs: {options.out}\n"
    assert [pair.model for pair in load_pairs(options.out)] == ["bert"]


def test_without_twins_each_program_is_started_once(tmp_path: Path) -> None:
    started = tmp_path / "started"
    commands = "".join(
        f"{name}: echo {name} >> {started}; {stepping(0.01)}\n" for name in ("bert", "ncf")
    )

    run(_options(tmp_path, commands, has_twins=False))

    assert started.read_text(encoding="utf-8").split() == ["bert", "ncf"]
    found = {(pair.model, pair.beside) for pair in load_pairs(tmp_path / "pairs.csv")}
    assert found == {("bert", "ncf"), ("ncf", "bert")}


def test_a_program_that_ends_leaves_no_table(tmp_path: Path) -> None:
    commands = f"bert: {stepping(0.01)}\nncf: {ending(1, 'no such module')}\n"

    with pytest.raises(TrainError, match="ncf: ended with 1"):
        run(_options(tmp_path, commands))

    assert not (tmp_path / "pairs.csv").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "commands: no line `name: command`"),
        ("bert python train.py", "commands:1: want a line `name: command`"),
        ("a: x\nbert large: y", "commands:2: 'bert large': want a name of letters"),
        ("bert: x\nBERT: y", "commands:2: BERT is there already"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "commands").write_text(text, encoding="utf-8")

    with pytest.raises(TrainError, match=error):
        read_commands(tmp_path / "commands")


def test_a_command_may_have_colons(tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("bert: A=b:c train.py --to tcp://x:1", encoding="utf-8")

    assert read_commands(tmp_path / "commands") == {"bert": "A=b:c train.py --to tcp://x:1"}


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"rounds": 1}, "--rounds 1: want 2 or more"),
        ({"pattern": "("}, "--pattern '\\(': "),
        ({"pattern": "step"}, "--pattern 'step': want a group"),
    ],
)
def test_wrong_options_are_named(more: dict[str, object], error: str, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match=error):
        run(_options(tmp_path, "bert: true", **more))


def test_a_speed_above_that_alone_is_noise(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", [PairRow("a", "b", 1.04, 0.01), PairRow("b", "a", 0.9, 1.3)])

    assert [(pair.speed_frac, pair.spread) for pair in load_pairs(tmp_path / "t.csv")] == [
        (1.0, 0.01),
        (0.9, 1.0),
    ]
