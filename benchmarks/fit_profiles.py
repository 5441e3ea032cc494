"""Fits the speed profiles on public tables and prints simulator/roost_sim/fitted_profiles.py.

    benchmarks/fit_profiles.py --data ../shared/data/throughput > FILE
    benchmarks/fit_profiles.py --data ../shared/data/throughput --validate [--json]

--validate prints the error of the profiles in the code on the rows that no fit has seen.
"""

import argparse
import json
from dataclasses import asdict, fields
from pathlib import Path

from roost_sim.fitted_profiles import PROFILES
from roost_sim.profile_fit import GAVEL, MURI, POLLUX, errors, fit_folder, read_pollux
from roost_sim.profiles import Profile

_SOURCES = {GAVEL: "GAVEL", MURI: "MURI", POLLUX: "POLLUX"}
HEADER = '''\
"""Speed profiles: figures fitted on public tables of step times. Printed by a program.

Written by benchmarks/fit_profiles.py; do not edit. Licences of the tables: Pollux (petuum/adaptdl)
and Muri Apache-2.0, Gavel MIT. How the terms read: roost_sim.profiles.
"""

from roost_sim.profile_fit import GAVEL, MURI, POLLUX
from roost_sim.profiles import Profile
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


def print_errors(data: Path, *, as_json: bool) -> None:
    """Print how far predicted step times are from measured ones that no fit has seen."""
    rows = read_pollux(data / "pollux_aws_t4_steptime.csv.gz")
    found = errors(PROFILES, (row for row in rows if row.is_held_out))
    if as_json:
        print(json.dumps([asdict(error) for error in found]))
        return
    print(f"{'family':12} {'rows':>6} {'mean':>7} {'median':>7} {'p90':>7}")
    for error in found:
        print(
            f"{error.family:12} {error.row_count:6} {error.mean_frac:7.1%}"
            f" {error.median_frac:7.1%} {error.p90_frac:7.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--validate", action="store_true", help="errors on rows not fitted on")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.validate:
        print_errors(options.data, as_json=options.json)
    else:
        print_module(fit_folder(options.data))


if __name__ == "__main__":
    main()
