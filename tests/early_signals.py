"""Sends a signal to a program in the midst of its imports."""

import subprocess
import sys

# Sends itself the signal as soon as the program is about to import the module.
_PROGRAM = """
import os, sys
from {start} import main

class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Sender())
sys.argv[1:] = {arguments} + sys.argv[1:]
main()
"""


def program_with_signal(start: str, module: str, number: int, *arguments: str) -> list[str]:
    """Return the command line of a program that gets a signal when it imports a module."""
    program = _PROGRAM.format(
        start=start, module=module, number=int(number), arguments=list(arguments)
    )
    return [sys.executable, "-c", program]


def assert_ends_quietly(start: str, module: str, number: int) -> None:
    """Check that the signal ends the program as it ends one without Python: `$?` is 128 + it."""
    program = program_with_signal(start, module, number)
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-number, "", "")
