"""The report as one page of HTML without scripts and outside resources."""

import time
from collections.abc import Iterator, Sequence
from html import escape

from roost_formats.report.figures import Estimate, GroupFigures, GroupPair, ReportFigures
from roostctl.output.logins import login_of
from roostctl.output.quantities import ABSENT, counted, duration

_MOST_USERS = 50
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --real: #c60; --roost: #086; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem; }
.card { flex: 1 1 12rem; }
.card b { display: block; font-size: 1.6rem; } small { opacity: .75; }
.bar { display: grid; grid-template-columns: 9rem 1fr 4rem; gap: .5rem; align-items: center; }
.bar i { display: block; height: .9rem; border-radius: .2rem; background: var(--roost); }
.bar i.real { background: var(--real); }
"""


def report_page(found: ReportFigures) -> str:
    """Return the page."""
    begin, end = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))
        for at_s in (found.since_s, found.until_s)
    )
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
            " style-src 'unsafe-inline'\">",
            f"<title>Roost report</title><style>{_STYLE}</style></head><body>",
            f"<h1>Roost report</h1><p>{counted(found.job_count, 'job')} that ended from {begin}"
            f" to {end}.</p>",
            *_mode("Watched: Slurm chose the GPUs", found.watched, is_watched=True),
            *_mode("Enforced: Roost chose the GPUs", found.enforced, is_watched=False),
            *_limits(found),
            *_groups("Partitions", "Partition", found.partitions),
            *_groups("Users", "User", _named(found.users)),
            *_left(found),
            "<p><small>Intervals hold 95 %, by a bootstrap over users and days. In modes shadow and"
            " advise the comparison is with this Slurm as it ran, each job by itself: a start that"
            " would have been sooner may have made another later. In mode enforce it is with the"
            " GPUs that plain Slurm takes on the same nodes.</small></p>",
            "</body></html>\n",
        )
    )


def _mode(title: str, found: GroupFigures | None, *, is_watched: bool) -> Iterator[str]:
    if found is None:
        return
    gain = found.planned_gain_frac if is_watched else found.stock_gain_frac
    yield f"<h2>{escape(title)}</h2><div class=cards>"
    yield _card("Jobs", str(found.job_count), f"{found.gpu_hours:,.0f} GPU-hours")
    yield _card("Links gained", _points(gain), _interval(gain, 100, " points"))
    same = "on the GPUs that Roost chose"
    yield _card("Same GPUs", _percent(found.same_frac), same)
    if is_watched:
        mean = ABSENT if found.sooner_s.value is None else duration(found.sooner_s.value)
        later = f"by {mean} in the mean; {found.later_count} later"
        yield _card("Sooner starts", str(found.sooner_count), later)
        waiting = found.waiting_gpu_hours
        yield _card("GPU-hours of waiting", _number(waiting), _interval(waiting, 1, ""))
    if found.running_gpu_hours.value is not None:
        running = found.running_gpu_hours
        yield _card("GPU-hours of running", _number(running), _interval(running, 1, ""))
    yield "</div>"
    yield "<p>Links, of the best possible:</p>"
    if is_watched:
        yield _bar("Slurm took", found.real_link_frac, is_real=True)
        yield _bar("Roost chose", found.planned_link_frac)
    else:
        yield _bar("plain Slurm takes", found.stock_link_frac, is_real=True)
        yield _bar("Roost gave", found.real_link_frac)


def _card(title: str, value: str, below: str) -> str:
    return (
        f"<div class=card>{escape(title)}<b>{escape(value)}</b><small>{escape(below)}</small></div>"
    )


def _bar(name: str, found: Estimate, *, is_real: bool = False) -> str:
    width = max(min((found.value or 0.0) * 100, 100.0), 0.0)
    kind = ' class="real"' if is_real else ""
    return (
        f'<div class=bar><span>{escape(name)}</span><i{kind} style="width:{width:.1f}%"></i>'
        f"<span>{_percent(found)}</span></div>"
    )


def _limits(found: ReportFigures) -> Iterator[str]:
    if found.limits:
        rows = [(one.limit, str(one.job_count), duration(one.wait_s)) for one in found.limits]
        yield from _table(
            "Limits of Slurm's that kept jobs waiting", ("Limit", "Jobs", "Waited"), rows
        )


def _left(found: ReportFigures) -> Iterator[str]:
    if found.left:
        rows = [(str(count), reason) for reason, count in found.left]
        yield from _table("Left to Slurm", ("Jobs", "Reason"), rows)


def _named(users: Sequence[GroupPair]) -> list[GroupPair]:
    return [
        GroupPair(login_of(int(one.name)), one.watched, one.enforced) for one in users[:_MOST_USERS]
    ]


def _groups(title: str, noun: str, groups: Sequence[GroupPair]) -> Iterator[str]:
    heads = (noun, "Mode", "Jobs", "GPU-hours", "Same GPUs", "Links", "Beside", "Gain")
    rows = [
        (
            group.name or ABSENT,
            mode,
            str(found.job_count),
            f"{found.gpu_hours:,.0f}",
            _percent(found.same_frac),
            _percent(found.real_link_frac),
            _percent(found.planned_link_frac if mode == "watched" else found.stock_link_frac),
            _points(found.planned_gain_frac if mode == "watched" else found.stock_gain_frac),
        )
        for group in groups
        for mode, found in (("watched", group.watched), ("enforced", group.enforced))
        if found is not None
    ]
    yield from _table(title, heads, rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2><div class=wide><table><tr>"
    yield "".join(f"<th>{escape(head)}" for head in heads) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) + "</tr>"
    yield "</table></div>"


def _percent(found: Estimate) -> str:
    return ABSENT if found.value is None else f"{found.value:.0%}"


def _points(found: Estimate) -> str:
    return ABSENT if found.value is None else f"{found.value * 100:+.0f} points"


def _number(found: Estimate) -> str:
    return ABSENT if found.value is None else f"{found.value:,.1f}"


def _interval(found: Estimate, times: float, unit: str) -> str:
    if found.low is None or found.high is None:
        return ""
    return f"{found.low * times:,.1f} to {found.high * times:,.1f}{unit}"
