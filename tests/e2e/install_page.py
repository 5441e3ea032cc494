"""Runs the commands of docs/install.md on the machines of a site, block by block."""

import re
from functools import partial
from pathlib import Path

from tests.e2e.package_site import CONTROLLER, DRIVER, NODES, PackageSite

PAGE = (Path(__file__).parents[2] / "docs" / "install.md").read_text()
PROMPT = re.compile(r"^(control1|each-node|NODE)# (.*)$")
ENVIRONMENT = "PATH=/opt/roost/bin:$PATH; "
PIP = "pip install --no-index --find-links /packages/wheels "


def commands(section: str) -> list[tuple[str, str]]:
    """The commands of a block, each with the machine that its prompt names."""
    block = PAGE.partition(f"<!-- test: {section} -->\n```console\n")[2].partition("\n```")[0]
    found = [PROMPT.match(line) for line in block.splitlines()]
    return [(match[1], match[2]) for match in found if match]


def run(site: PackageSite, section: str, node: str = "NODE", back: str = "") -> int:
    """Run a block of the page and return how many commands it has.

    Args:
        site: where.
        section: the block.
        node: what NODE stands for.
        back: " --back" for the way back of `migrate --step`.
    """
    found = commands(section)
    for prompt, line in found:
        command, place = line.replace("NODE", node), prompt.replace("NODE", node)
        command += back if "migrate --step" in command else ""
        # The machines have no network: pip finds its wheels in a folder, the checkout's among them.
        command = command.replace("pip install '.[", f"{PIP}'roost[")
        for machine in NODES if place == "each-node" else (place,):
            if machine in NODES and command.startswith("roost-probe"):
                command = f". {DRIVER}; {command}"
            if command.startswith("scp "):
                site.copy(command.split()[1:-1], *command.split()[-1].split(":"))
            elif "state=resume" in command:
                site.wait_until(partial(resumes, site, node, command), f"{node} stays away")
            else:
                site.shell(machine, ENVIRONMENT + command)
            if machine in NODES and ("install -y" in command or "pip install" in command):
                site.add_gpus(machine)
            if command.startswith("systemctl restart slurmctld"):
                site.wait_until(lambda: bool(site.node_states()), "slurmctld is not back")
    return len(found)


def resumes(site: PackageSite, node: str, command: str) -> bool:
    """Whether a node is open again; slurmctld refuses before it has registered."""
    if site.node_states()[node] not in ("idle", "mixed", "allocated"):
        site.shell(CONTROLLER, command)
    return site.node_states()[node] in ("idle", "mixed", "allocated")
