"""`roost-sim policies`: what `--policy` takes."""

import json

import click

from roost_sim.policies import GATES, ORDERS, PLACEMENTS, POLICIES, PREEMPTIONS, Composition

_HEADS = ("name", "order", "placement", "gate", "preemption", "regime")


@click.command(epilog="Example: roost-sim policies --json")
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
def policies(as_json: bool) -> None:
    """List the policies, and the parts that any other can be put together from."""
    rows = [_document(policy) for policy in POLICIES.values()]
    if as_json:
        click.echo(json.dumps(rows))
        return
    widths = [max(len(head), *(len(row[head]) for row in rows)) for head in _HEADS]
    for cells in (_HEADS, *([row[head] for head in _HEADS] for row in rows)):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        click.echo("  ".join(padded).rstrip())
    for kind, sources in (
        ("order", {name: part.source for name, part in ORDERS.items()}),
        ("placement", {name: part.source for name, part in PLACEMENTS.items()}),
        ("gate", {name: part.source for name, part in GATES.items()}),
        ("preemption", PREEMPTIONS),
    ):
        click.echo(f"\n{kind}:")
        for name, source in sources.items():
            click.echo(f"  {name:<15} {source}")


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
