"""`roostctl completion SHELL`: the line that makes Tab complete commands, nodes and job ids."""

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command(epilog="Example: echo 'eval \"$(roostctl completion bash)\"' >> ~/.bashrc")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    Node names and job ids complete too, as long as the daemon answers within half a second.
    """
    script = get_completion_class(shell)
    assert script is not None, shell  # click ships all three
    root = ctx.find_root()
    click.echo(script(root.command, {}, "roostctl", "_ROOSTCTL_COMPLETE").source())
