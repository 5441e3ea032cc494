import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from roost_engine.domain.errors import ConfigError
from roostd.ops.metrics import Metrics, serve_metrics

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


def test_prometheus_is_answered_over_http() -> None:
    registry = CollectorRegistry()
    Metrics(registry).mismatches.inc()
    server, thread = start_http_server(0, "127.0.0.1", registry=registry)
    try:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

    assert "roost_allocation_mismatches_total 1.0" in text


def test_an_address_that_cannot_be_used_is_named() -> None:
    registry = CollectorRegistry()
    server, thread = start_http_server(0, "127.0.0.1", registry=registry)
    try:
        with pytest.raises(ConfigError, match=r"listen.metrics: 127.0.0.1:\d+: Address already"):
            serve_metrics(registry, f"127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
