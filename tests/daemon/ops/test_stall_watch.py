"""The watch on the event loop."""

import asyncio
import contextlib
import time

from prometheus_client import CollectorRegistry

from roostd.ops.metrics import Metrics
from roostd.ops.stall_watch import StallWatch


async def test_a_task_that_blocks_the_loop_is_measured() -> None:
    metrics = Metrics(CollectorRegistry())
    watch = StallWatch(metrics)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0.12)
    watch.reset()
    time.sleep(0.4)  # noqa: ASYNC251  this is the stall
    await asyncio.sleep(0.1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert watch.longest_s >= 0.3
    assert watch.longest_cpu_s < watch.longest_s  # it slept
    value = metrics.registry.get_sample_value
    assert value("roost_loop_stall_longest_seconds") == watch.longest_s
    assert (value("roost_loop_stall_seconds_count") or 0.0) >= 2
    assert (value("roost_loop_stall_seconds_sum") or 0.0) >= 0.3


def test_early_is_not_late_and_only_the_longest_stays() -> None:
    metrics = Metrics(CollectorRegistry())
    watch = StallWatch(metrics)
    for late_s in (-0.01, 0.2, 0.1):
        watch.note(late_s)
    assert watch.longest_s == 0.2
    assert metrics.registry.get_sample_value("roost_loop_stall_seconds_sum") is not None
    watch.reset()
    assert watch.longest_s == 0.0
