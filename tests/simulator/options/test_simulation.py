"""Options of every command that simulates: wrong values are one line."""

from pathlib import Path

import pytest
from tests.simulator.program import run


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--policy", "fifa"], 2, "no policy 'fifa': did you mean fifo?"),
        (["--cluster", "nowhere"], 2, "nowhere: no such file, and no preset"),
        (["--trace", "/nonexistent.csv"], 2, "/nonexistent.csv"),
        (["--warm-up-frac", "0.6", "--cool-down-frac", "0.4"], 2, "leave no job to measure"),
        (["--load", "0"], 2, "--load"),
        (["--load", "nan"], 2, "nan is not a finite number"),
        (["--load", "1e-300"], 2, "jobs.csv: at a load of 1e-300 jobs arrive over more than 3,17"),
        (["--congestion", "inf"], 2, "inf is not in the range 1<=x<=1000000"),
        (["--compute-scale", "nan"], 2, "nan is not a finite number"),
        (["--patience-s", "nan"], 2, "nan is not a finite number"),
        (["--warm-up-frac", "nan"], 2, "nan is not a finite number"),
        (["--seed", "9223372036854775808"], 2, "--seed"),
        (["--start-delay-s", "10"], 2, "--start-delay-s"),
        (["--mechanism", "two-pins"], 2, "'two-pins' is not one of 'lease', 'one-pin', 'standing'"),
        (["--pin-after-s", "nan"], 2, "nan is not a finite number"),
    ],
)
def test_what_is_wrong_is_one_line(
    trace: Path, cluster: Path, arguments: list[str], code: int, complaint: str
) -> None:
    result = run("run", "--trace", trace, "--cluster", cluster, *arguments)
    assert result.exit_code == code
    assert complaint in result.stderr
    assert "Traceback" not in result.output
