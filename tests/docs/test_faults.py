"""docs/faults.md: each fault has a behaviour and tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!Fault )([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_every_fault_names_tests_that_exist() -> None:
    assert len(ROWS) > 25
    for fault, _, shown in ROWS:
        paths = re.findall(r"`((?:tests|benchmarks)/[^`]*\.py)`", shown)
        assert [path for path in paths if path.startswith("tests/")], fault
        for path in paths:
            text = (ROOT / path).read_text(encoding="utf-8")
            assert "def test_" in text or "TestCase" in text or path.startswith("benchmarks/"), path
