"""Fits the speed profiles on public tables and prints worlds/speed/fitted_profiles.py.

    python benchmarks/fit_profiles.py --data ../shared/data/throughput > FILE

How wrong they are: `roost-sim profiles --validate`.
"""

import argparse
import json
from dataclasses import fields
from pathlib import Path

from roost_sim.worlds.speed.profile_fit import GAVEL, MURI, POLLUX, fit_folder
from roost_sim.worlds.speed.profiles import Profile

_SOURCES = {GAVEL: "GAVEL", MURI: "MURI", POLLUX: "POLLUX"}
HEADER = '''\
"""Speed profiles: figures fitted on public tables of step times. Printed by a program.

Written by benchmarks/fit_profiles.py; do not edit. Licences of the tables: Pollux (petuum/adaptdl)
and Muri Apache-2.0, Gavel MIT. How the terms read: roost_sim.worlds.speed.profiles.
"""

from roost_sim.worlds.speed.profile_fit import GAVEL, MURI, POLLUX
from roost_sim.worlds.speed.profiles import Profile
'''


def print_module(profiles: tuple[Profile, ...]) -> None:
    """Print the profiles as the module that the simulator imports."""
    print(HEADER)
    print("PROFILES = (")
    for profile in profiles:
        print("    Profile(")
        for field in fields(profile):
            value = getattr(profile, field.name)
            text = _SOURCES[value] if field.name == "source" else json.dumps(value)
            print(f"        {field.name}={text},")
        print("    ),")
    print(")")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    print_module(fit_folder(parser.parse_args().data))


if __name__ == "__main__":
    main()
