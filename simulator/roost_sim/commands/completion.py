"""`roost-sim completion SHELL`: the script that completes commands, policies and presets."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command(epilog="Example: echo 'eval \"$(roost-sim completion bash)\"' >> ~/.bashrc")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    Policies complete part by part, between plus signs and commas.
    """
    script = get_completion_class(shell)
    assert script is not None, shell  # click ships all three
    root = ctx.find_root()
    click.echo(script(root.command, {}, "roost-sim", "_ROOST_SIM_COMPLETE").source())
