import asyncio
import socket

from grpc._cython import cygrpc  # type: ignore[attr-defined]

from roostd.ops.event_loop import EventLoop


class Reader:
    """Takes one byte of a call, as gRPC's reader does."""

    def __init__(self, wakes: socket.socket) -> None:
        self._wakes, self.call_count, self.done = wakes, 0, asyncio.Event()

    def _handle_events(self) -> None:
        self._wakes.recv(1)
        self.call_count += 1
        self.done.set()


def test_bytes_that_wait_together_take_one_turn() -> None:
    async def count() -> int:
        wakes, wake = socket.socketpair()
        with wakes, wake:
            reader = Reader(wakes)
            asyncio.get_running_loop().add_reader(wakes, reader._handle_events)
            wake.send(b"1" * 50)
            await reader.done.wait()
            await asyncio.sleep(0.01)
            asyncio.get_running_loop().remove_reader(wakes)
        return reader.call_count

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        assert runner.run(count()) == 1


def test_grpc_still_has_the_reader_that_the_loop_looks_for() -> None:
    assert cygrpc.PollerCompletionQueue._handle_events.__name__ == "_handle_events"
