"""The same numbers whatever the hash seed, the number of processes, and with Ray or without."""

from pathlib import Path

import pytest
from tests.simulator.sweeps.program import printed


@pytest.mark.parametrize(("hash_seed", "processes"), [("4242", "1"), ("7", "2")])
def test_processes_and_hash_seeds_change_nothing(
    trace: Path, expected: str, hash_seed: str, processes: str
) -> None:
    assert printed(trace, hash_seed, "--processes", processes) == expected
