"""roostd's event loop: asyncio's own, which lets a coroutine wait for a future of another class."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class DaemonLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, with one more way to start a coroutine: `begin`."""

    _make_future: Callable[[], asyncio.Future[Any]] | None = None  # while `begin` runs

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio; while `begin` runs, its caller makes the future."""
        make = self._make_future
        return super().create_future() if make is None else make()

    def begin(
        self, coroutine: Coroutine[Any, Any, Any], make_future: Callable[[], asyncio.Future[Any]]
    ) -> Any:
        """Run a coroutine to the first future that it waits for.

        Args:
            coroutine: has not begun; its caller continues it.
            make_future: makes the futures that the coroutine asks the loop for until then. A class
                whose `set_result` calls its owner reports a result at once; a done callback comes
                a turn of the loop later.

        Returns:
            What the coroutine waits for: such a future, or one that it got elsewhere.

        Raises:
            StopIteration: the coroutine has ended without waiting, with this value.
            Exception: what the coroutine raised.
        """
        self._make_future = make_future
        try:
            return coroutine.send(None)
        finally:
            self._make_future = None
