"""deploy/grafana: every metric exists, promtool accepts the rules, the dashboard is well formed."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.conftest import missing

from roostd.ops.metrics import Metrics

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "grafana"
DASHBOARD, ALERTS = FOLDER / "roost.json", FOLDER / "alerts.yaml"
_METRIC = re.compile(r"\broost_\w+")
_KINDS = {"row", "stat", "table", "timeseries"}
WIDTH = 24  # columns of Grafana's grid


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> Iterator[dict[str, Any]]:
    yield from (one for one in dashboard()["panels"] if one["type"] != "row")


def expressions() -> list[str]:
    variables = [
        one["definition"] for one in dashboard()["templating"]["list"] if "definition" in one
    ]
    of_panels = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*variables, *of_panels, *(rule["expr"] for rule in rules())]


def series() -> dict[str, set[str]]:
    """The names under which Prometheus stores roostd's metrics, with their labels."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    found: dict[str, set[str]] = {}
    labels = {
        name: set(one._labelnames)
        for one in vars(metrics).values()
        if hasattr(one, "_labelnames")
        for name in [one._name]
    }
    for family in registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        for ending in endings.get(family.type, ("",)):
            found[family.name + ending] = labels[family.name]
    return found


def test_every_metric_that_is_named_exists() -> None:
    named = {name for text in expressions() for name in _METRIC.findall(text)}
    assert len(named) > 20
    assert named - set(series()) == set()


def test_every_label_that_is_summed_by_exists() -> None:
    known = series()
    always = {"le", "instance", "job"}
    for text in expressions():
        labels = {
            name for names in re.findall(r" by \(([\w, ]+)\)", text) for name in names.split(", ")
        }
        of_metrics = set[str]().union(*(known[name] for name in _METRIC.findall(text)))
        assert labels <= of_metrics | always, text


def test_counters_are_rated_and_gauges_are_not() -> None:
    for text in expressions():
        for name in _METRIC.findall(text):
            is_rated = re.search(rf"(rate|increase)\({name}\b", text) is not None
            assert is_rated == name.endswith(("_total", "_bucket")), (name, text)


def test_the_states_and_labels_that_are_asked_for_are_those_of_the_daemon() -> None:
    states = set(re.findall(r'roost_(?:gpus|jobs)\{[^}]*state="(\w+)"', " ".join(expressions())))
    assert states == {"held", "waiting", "running"}


def test_panels_have_what_grafana_needs_and_do_not_overlap() -> None:
    found = dashboard()
    assert (found["uid"], found["title"]) == ("roost-overview", "Roost")
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set[tuple[int, int]]()
    for panel in found["panels"]:
        assert panel["type"] in _KINDS
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert references == list("ABCDEF"[: len(references)])
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source["uid"] == "${datasource}" for source in sources)


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) > 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_page_has_every_alert() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    listed = set(re.findall(r"^\| `(Roost\w+)` \|", page, re.MULTILINE))
    assert listed == {rule["alert"] for rule in rules()}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    if found is None:
        missing("no promtool here; on Debian: apt-get install --no-install-recommends prometheus")
    assert found is not None
    return subprocess.run([found, *arguments], capture_output=True, text=True, timeout=60)


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", str(ALERTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout


def test_promtool_parses_what_the_panels_ask_for(tmp_path: Path) -> None:
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    plain = [re.sub(r"\$__rate_interval", "5m", expr).replace("$", "") for expr in asked]
    recorded = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(plain)]
    rule_file = tmp_path / "panels.yaml"
    rule_file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    done = promtool("check", "rules", str(rule_file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(asked) > 30
    assert f"{len(asked)} rules found" in done.stdout


def test_the_dashboard_is_of_the_schema_that_grafana_10_and_later_read() -> None:
    found = dashboard()
    assert found["schemaVersion"] == 39  # Grafana 10.2's; later releases migrate it
    assert {"panels", "templating", "time", "title", "uid"} <= found.keys()
    assert "id" not in found or found["id"] is None  # Grafana gives one at import
    for panel in panels():
        assert {"datasource", "fieldConfig", "gridPos", "id", "options", "targets"} <= panel.keys()
        assert all(target["expr"].strip() for target in panel["targets"])


@pytest.mark.parametrize(
    ("series_name", "values", "alert"),
    [
        ("roost_slurm_fault", "1+0x20", "RoostSlurmLost"),
        ("roost_jobs_beyond_slurm", "2+0x20", "RoostJobsBeyondSlurm"),
        ("roost_allocation_mismatches_total", "0+1x20", "RoostOtherGpusThanDecided"),
        ('up{job="roostd"}', "0+0x20", "RoostdDown"),
    ],
)
def test_an_alert_fires_on_what_it_is_for(
    tmp_path: Path, series_name: str, values: str, alert: str
) -> None:
    quiet = "roost_config_last_reload_successful"
    file = tmp_path / "tests.yaml"
    case = {
        "interval": "1m",
        "input_series": [
            {"series": series_name, "values": values},
            {"series": quiet, "values": "1+0x20"},
        ],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                "eval_time": "19m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            },
            {
                "expr": 'count(ALERTS{alertname="RoostReloadRefused"})',
                "eval_time": "19m",
                "exp_samples": [],
            },
        ],
    }
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
