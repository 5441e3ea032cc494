"""One HTML file about a training: its curves, its figures and its configuration, nothing loaded."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 200, 70, 12
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 46em; color: #1c2733; }
svg { width: 100%; height: auto; } h2 { margin: 1.6em 0 0.2em; font-size: 1.05em; }
polyline { fill: none; stroke: #1f6fb2; stroke-width: 2; } circle { fill: #1f6fb2; }
line { stroke: #ccd4dc; } text { font-size: 12px; fill: #5a6672; }
table { border-collapse: collapse; } td, th { padding: 0.15em 0.9em 0.15em 0; text-align: right; }
pre { background: #f3f5f7; padding: 1em; overflow: auto; font-size: 12px; }
"""
_CHARTS = (
    ("validation", "iteration", "to_teacher", "Validation: completion time over the teacher's"),
    ("iteration", "number", "mean_jct_s", "Training episodes: mean completion time, s"),
    ("iteration", "number", "entropy", "Entropy of the policy, nats"),
    ("iteration", "number", "divergence", "Change of the policy in an iteration, nats"),
    ("iteration", "number", "explained_frac", "Share of the returns that the critic foresaw"),
    ("iteration", "number", "regret_s", "Best candidate over the first choice, run ahead"),
)


def write_training_report(
    path: Path, about: Mapping[str, object], lines: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Write the report; a file that is there is replaced.

    Args:
        path: of the HTML file.
        about: configuration and data, shown as they are.
        lines: of the log, by kind.
    """
    parts = [chart(title, _points(lines.get(kind, ()), x, y)) for kind, x, y, title in _CHARTS]
    tables = [_table(kind, lines[kind]) for kind in ("imitation", "validation") if lines.get(kind)]
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Training of a job selector</title>"
        f"<style>{_STYLE}</style><h1>Training of a job selector</h1>"
        f"{''.join(parts)}{''.join(tables)}"
        f"<h2>Configuration</h2><pre>{escape(json.dumps(about, indent=1))}</pre></html>\n"
    )
    path.write_text(page, encoding="utf-8")


def chart(title: str, points: Sequence[tuple[float, float]]) -> str:
    """Return a line through points as SVG, with its title; nothing without points."""
    if not points:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(ys), max(ys)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low, high = low - margin, high + margin

    def across(x: float) -> float:
        span = (max(xs) - min(xs)) or 1.0
        return _LEFT + (x - min(xs)) / span * (_WIDTH - _LEFT - 10)

    def down(y: float) -> float:
        return _TOP + (high - y) / (high - low) * (_HEIGHT - _TOP - 24)

    places = [(across(x), down(y)) for x, y in points]
    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{_label(y)}</text>'
        for y in (min(ys), (min(ys) + max(ys)) / 2, max(ys))
    )
    ends = "".join(
        f'<text x="{across(x):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{x:g}</text>'
        for x in dict.fromkeys((min(xs), max(xs)))
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places)
    return (
        f'<h2>{escape(title)}</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">{grid}{ends}<polyline points="{line}"/>{dots}</svg>'
    )


def _points(lines: Sequence[Mapping[str, Any]], x: str, y: str) -> Sequence[tuple[float, float]]:
    """Return the points of a curve; a method that has no such figure has none."""
    return [(float(one[x]), float(one[y])) for one in lines if one.get(y) is not None]


def _table(kind: str, lines: Sequence[Mapping[str, Any]]) -> str:
    names = list(lines[0])
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{float(line[name]):.6g}</td>" for name in names) + "</tr>"
        for line in lines
    )
    return f"<h2>{escape(kind.capitalize())}</h2><table><tr>{head}</tr>{body}</table>"


def _label(y: float) -> str:
    """Return a value as it stands beside the frame, in 9 characters at most."""
    if abs(y) < 1e4:
        return f"{y:.4g}"
    return f"{y:,.0f}" if abs(y) < 1e6 else f"{y:.1e}"
