"""Long reading leaves the event loop to others in between."""

import asyncio
import time

from roostd.ops.slices import SLICE_S, Slices


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
