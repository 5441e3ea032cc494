"""interruption: what Ctrl-C says of a training that can be continued."""

from pathlib import Path

import pytest

from roost_slurm.program import EXIT_INTERRUPTED
from roost_train.commands.interruption import stopped


def test_a_stopped_training_says_where_the_same_command_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert stopped(Path("runs/june")) == EXIT_INTERRUPTED == 130
    told = capsys.readouterr()
    assert told.err == "roost-train: stopped; the same command continues in runs/june\n"
    assert told.out == ""
