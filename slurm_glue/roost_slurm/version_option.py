"""`--version` of the programs that use argparse; the metadata is read only when it is asked for."""

import argparse
from collections.abc import Sequence


class ShowVersion(argparse.Action):
    """Prints the program's name and the version of Roost, and exits with 0."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        """Take no value; see argparse.Action."""
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, help="print the version and exit"
        )

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print and exit."""
        # Imported here: it costs 70 ms and 3 MB.
        from importlib.metadata import version

        print(f"{parser.prog}, version {version('roost')}")
        parser.exit()
