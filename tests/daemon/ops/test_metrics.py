import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from roostd.ops.metrics import Metrics

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def test_the_page_lists_every_metric_with_its_meaning_and_no_other() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    ours = {
        f"{family.name}{'_total' if family.type == 'counter' else ''}": family.documentation
        for family in registry.collect()
    }

    rows = re.findall(r"^\| `(roost_\w+)` \| \w+ \| [\w, ]*\| (.*) \|$", PAGE.read_text(), re.M)

    assert dict(rows) == ours


def test_names_have_our_prefix_and_base_units() -> None:
    registry = CollectorRegistry()
    Metrics(registry)

    for family in registry.collect():
        assert family.name.startswith("roost_")
        assert not re.search(r"_(ms|milliseconds|mib|percent)\b", family.name)
