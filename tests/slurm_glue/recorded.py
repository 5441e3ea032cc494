"""Slurm's output as recorded per release; provenance: fixtures/README.md."""

import re
from pathlib import Path

RELEASES = ("22.05", "24.11", "26.05")
FIXTURES = Path(__file__).parent / "fixtures"


def read(release: str, file: str) -> str:
    """A recorded output."""
    return (FIXTURES / release / file).read_text()


def numbers(release: str, file: str = "show_job.txt") -> dict[str, int]:
    """The job number of each job name in the recording, but for the line that a user forged."""
    found = re.findall(r"^JobId=(\d+) .*?JobName=(\S+)", read(release, file), re.MULTILINE)
    return {name: int(number) for number, name in reversed(found) if name != "forged"}
