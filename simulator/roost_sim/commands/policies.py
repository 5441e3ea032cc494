"""`roost-sim policies`: lists the policies and parts that `--policy` accepts."""

import json
from collections.abc import Iterator, Mapping
from textwrap import wrap

import click

from roost_sim.catalogue.composition import Composition
from roost_sim.catalogue.compositions import POLICIES
from roost_sim.catalogue.gates import GATES
from roost_sim.catalogue.orders import ORDERS
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.catalogue.preemptions import PREEMPTIONS

_HEADS = ("name", "order", "placement", "gate", "preemption", "regime")
_WIDTH = 100


@click.command(
    short_help="List the policies and their parts.",
    epilog="""\b
Examples: roost-sim policies
          roost-sim policies --json | jq -r '.[].name'""",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def policies(as_json: bool) -> None:
    """List the policies, and the parts that any other can be put together from.

    A policy is order+placement+gate+preemption; parts left off at the end take the default. The
    regime is what it knows about run times: oracle the true ones, predicted and limit what a site
    could know, none nothing.
    """
    rows = [_document(policy) for policy in POLICIES.values()]
    if as_json:
        click.echo(json.dumps(rows))
        return
    for line in (*_table(rows), *_parts()):
        click.echo(line)


def _table(rows: list[dict[str, str]]) -> Iterator[str]:
    """Two lines a policy, the source on its own lines: one line would be too wide."""
    widths = [max(len(head), *(len(row[head]) for row in rows)) for head in _HEADS]

    def aligned(cells: Iterator[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return " ".join(padded).rstrip()

    yield aligned(iter(_HEADS))
    for row in rows:
        yield aligned(row[head] for head in _HEADS)
        yield from _wrapped("    ", row["source"])


def _parts() -> Iterator[str]:
    kinds: tuple[tuple[str, Mapping[str, str]], ...] = (
        ("order", {name: part.source for name, part in ORDERS.items()}),
        ("placement", {name: part.source for name, part in PLACEMENTS.items()}),
        ("gate", {name: part.source for name, part in GATES.items()}),
        ("preemption", {name: part.source for name, part in PREEMPTIONS.items()}),
    )
    indent = 4 + max(len(name) for _, sources in kinds for name in sources)
    for kind, sources in kinds:
        yield ""
        yield f"{kind}:"
        for name, source in sources.items():
            yield from _wrapped(f"  {name}".ljust(indent), source)


def _wrapped(begin: str, text: str) -> list[str]:
    return wrap(text, _WIDTH, initial_indent=begin, subsequent_indent=" " * len(begin))


def _document(policy: Composition) -> dict[str, str]:
    return {
        "name": policy.name,
        "order": policy.order,
        "placement": policy.placement,
        "gate": policy.gate,
        "preemption": policy.preemption,
        "regime": policy.regime.value,
        "source": policy.source,
    }
