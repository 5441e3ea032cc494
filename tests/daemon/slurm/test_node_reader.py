"""node_reader: a dump of nodes means the same in slices, and other tasks run meanwhile."""

import asyncio
import re

from tests.slurm_glue.recorded import read

from roost_slurm.text.scontrol import parse_nodes
from roostd.slurm.node_reader import read_nodes

TEXT = read("24.11", "show_nodes.txt")


async def test_all_nodes_are_returned_and_those_with_gpus_in_the_engine_s_terms() -> None:
    future = TEXT.split("\n")[0].replace("NodeName=n1", "NodeName=n7")
    future = future.replace("State=MIXED", "State=FUTURE")
    bare = TEXT.split("\n")[1].replace("NodeName=n2", "NodeName=n8")
    bare = " ".join(word for word in bare.split(" ") if not word.startswith("Gres="))
    text = f"{TEXT}\n{future}\n{bare}\nno node"

    shown, nodes = await read_nodes(text, {"n1": "r1"})

    assert shown == parse_nodes(text)
    assert [one.name for one in shown] == ["n1", "n2", "n3", "n7", "n8"]
    assert [one.spec.name for one in nodes] == ["n1", "n2", "n3"]
    assert [one.spec.rack for one in nodes] == ["r1", "", ""]
    first, seen = nodes[0], shown[0]
    assert first.spec.gpu_count == seen.gpu_count == 8
    assert first.spec.features == seen.features == ("a100", "big")
    assert (first.used_gpus, first.cpu_allocated_count) == ((0, 2, 3), 5)
    assert not any(one.is_registering for one in nodes)


async def test_nodes_that_slurmctld_awaits_are_told() -> None:
    restarted = re.sub(r"SlurmdStartTime=\S+", "SlurmdStartTime=None", TEXT, count=1)
    _, nodes = await read_nodes(restarted, {})
    assert [one.is_registering for one in nodes] == [True, False, False]


async def test_other_tasks_run_while_thousands_of_nodes_are_read() -> None:
    turn_count = 0

    async def other() -> None:
        nonlocal turn_count
        while True:
            turn_count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    shown, _ = await read_nodes("\n".join([TEXT.strip()] * 400), {})
    task.cancel()
    assert len(shown) == 1_200
    assert turn_count > 2
