"""DaemonLoop: one coroutine waits for the futures that its caller makes, all others as ever."""

import asyncio
from typing import Any

import pytest

from roostd.ops.event_loop import DaemonLoop


class Told(asyncio.Future[Any]):
    """Tells of its result at once."""

    told: Any = None

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self.told = result


async def waits() -> Any:
    return await asyncio.get_running_loop().create_future()


def test_a_coroutine_waits_for_the_future_that_its_caller_makes() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DaemonLoop)
        coroutine = waits()
        future = loop.begin(coroutine, Told)
        assert isinstance(future, Told)
        assert type(loop.create_future()) is asyncio.Future
        future.set_result(7)
        assert future.told == 7
        with pytest.raises(StopIteration) as end:
            coroutine.send(None)
        assert end.value.value == 7

    with asyncio.Runner(loop_factory=DaemonLoop) as runner:
        runner.run(run())


def test_a_coroutine_that_fails_at_once_leaves_the_loop_as_it_was() -> None:
    async def fails() -> None:
        raise ConnectionError

    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DaemonLoop)
        with pytest.raises(ConnectionError):
            loop.begin(fails(), Told)
        assert type(loop.create_future()) is asyncio.Future

    with asyncio.Runner(loop_factory=DaemonLoop) as runner:
        runner.run(run())
