"""Node names and job ids for the shell's Tab key, when the daemon answers at once."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from roostctl.clients.calls import DEFAULT_ADDRESS, CallFailed
from roostctl.clients.operator import OperatorClient
from roostctl.documents.values import job_state_word
from roostctl.output.quantities import safe_text

_PATIENCE_S = 0.5  # with a slower answer the Tab key feels broken


def node_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of nodes that begin with what was typed; see click's shell_complete."""
    return _matching(
        ctx,
        incomplete,
        lambda operator: (CompletionItem(node.name) for node in operator.list_nodes()),
    )


def job_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of jobs that begin with what was typed, with their state as help."""
    return _matching(
        ctx,
        incomplete,
        lambda operator: (
            CompletionItem(job.job_id, help=job_state_word(job.state))
            for job in operator.list_jobs(include_ended=True)
        ),
    )


def _matching(
    ctx: click.Context,
    incomplete: str,
    ask: Callable[[OperatorClient], Iterable[CompletionItem]],
) -> list[CompletionItem]:
    address = ctx.find_root().params.get("daemon") or DEFAULT_ADDRESS
    try:
        with OperatorClient(address, _PATIENCE_S) as operator:
            items = list(ask(operator))
    except CallFailed:
        return []  # Tab has nowhere to show an error
    # The shell could not pass on a name that needs escaping.
    return [
        item
        for item in items
        if item.value.startswith(incomplete) and safe_text(item.value) == item.value
    ]
