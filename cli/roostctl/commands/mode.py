"""`roostctl mode PARTITION MODE`: what roostd does with the jobs of a partition, changed live."""

from collections.abc import Iterator

import click

from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import operator_pb2
from roostctl.clients.modes import ModesClient
from roostctl.documents.modes import ModeDocument, mode_document
from roostctl.documents.values import mode_word
from roostctl.options.admin import admin_address, admin_option, caller_name
from roostctl.options.common import Options, json_option, pass_options
from roostctl.output.console import new_console, print_document, prose, show
from roostctl.output.quantities import safe_text

_MODES = {
    "off": operator_pb2.MODE_OFF,
    "shadow": operator_pb2.MODE_SHADOW,
    "advise": operator_pb2.MODE_ADVISE,
    "enforce": operator_pb2.MODE_ENFORCE,
}


@click.command(
    short_help="Change the mode of a partition, at once.",
    epilog="Example: roostctl mode gpu enforce",
)
@click.argument("partition")
@click.argument("mode", type=click.Choice(list(_MODES)))
@json_option
@admin_option
@pass_options
def mode(options: Options, partition: str, mode: str, as_json: bool, admin: str) -> None:
    """Change what roostd does with the jobs of a partition, at once; for administrators.

    off: nothing; shadow: it decides and records; advise: it also writes the choice into the admin
    comment; enforce: Slurm starts each job on the chosen GPUs. roostd.yaml stays as it is, and
    holds again after a reload or a restart.
    """
    with ModesClient(admin_address(options, admin), options.timeout_s) as client:
        made = client.set_mode(partition, _MODES[mode], caller_name())
    if as_json:
        document: ModeDocument = mode_document(made)
        print_document(document)
        return
    show(new_console(), *(prose(line) for line in _lines(made)))


def _lines(made: pb.SetModeResponse) -> Iterator[str]:
    name, now, was = safe_text(made.partition), mode_word(made.mode), mode_word(made.was)
    yield f"{name} is {now} already." if now == was else f"{name} is {now}; it was {was}."
    if made.mode != made.configured:
        file_mode = mode_word(made.configured)
        yield (
            f"roostd.yaml says {file_mode}, which holds again after a reload or a restart: write "
            f"{now} there to keep it."
        )
