"""Long reading leaves the event loop to others in between."""

import asyncio
import time

from roostd.ops.slices import SLICE_S, Readings, Slices


async def test_other_tasks_run_between_slices() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for _ in Slices().over(range(5)):
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < SLICE_S:
            pass
    task.cancel()
    assert turns >= 5


async def test_a_short_reading_is_not_interrupted() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    seen = [item async for item in Slices().over(range(3))]
    assert seen == [0, 1, 2]
    assert not task.done()
    await task


async def test_readings_come_one_after_the_other_each_in_a_turn_of_its_own() -> None:
    readings, turn, began = Readings(), 0, list[int]()

    async def read() -> None:
        async with readings.begin() as slices:
            began.append(turn)
            await slices.give_way()

    tasks = [asyncio.create_task(read()) for _ in range(4)]
    while not all(task.done() for task in tasks):
        turn += 1
        await asyncio.sleep(0)
    assert began == sorted(set(began))
    assert len(began) == 4


async def test_a_reading_whose_caller_has_gone_keeps_no_other_waiting() -> None:
    readings = Readings()

    async def read(ends: asyncio.Event) -> None:
        async with readings.begin():
            await ends.wait()

    gone = asyncio.create_task(read(asyncio.Event()))
    await asyncio.sleep(0)
    gone.cancel()
    may_end = asyncio.Event()
    may_end.set()
    async with asyncio.timeout(60):
        await read(may_end)
    assert gone.cancelled()


async def test_callers_take_turns() -> None:
    readings, began = Readings(), list[str]()

    async def read(caller: str) -> None:
        async with readings.begin(caller):
            began.append(caller)

    await asyncio.gather(*map(read, "aaaaabbc"))
    assert "".join(began) == "aabcabaa"


async def test_one_that_leaves_while_it_waits_or_as_it_is_let_in_keeps_none_waiting() -> None:
    readings, may_end, ended = Readings(), asyncio.Event(), list[str]()

    async def read(caller: str) -> None:
        async with readings.begin(caller):
            await may_end.wait()
        if caller == "a":
            tasks["b"].cancel()  # it was let in in this turn
        ended.append(caller)

    tasks = {caller: asyncio.create_task(read(caller)) for caller in "abcd"}
    await asyncio.sleep(0)
    tasks["c"].cancel()
    may_end.set()
    async with asyncio.timeout(60):
        await tasks["d"]
        await read("e")
    assert ended == ["a", "d", "e"]
