"""The examples of docs/interference.md, and an agent that they can report to."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "interference.md").read_text()
SOCKET = "/run/roost-probe/agent.sock"


class FakeAgent:
    """Accepts every report on a UNIX socket, one line a connection, and remembers them."""

    def __init__(self, path: Path) -> None:
        self.path, self.reports = path, list[dict[str, Any]]()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(16)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection, connection.makefile("rwb") as lines:
                line = lines.readline()
                if not line:
                    return  # from `close`
                self.reports.append(json.loads(line))
                lines.write(b'{"accepted": true, "reason": ""}\n')

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(str(self.path))
        self._thread.join()
        self._server.close()


@contextmanager
def fake_agent() -> Iterator[FakeAgent]:
    """Listen for as long as the context is open."""
    with TemporaryDirectory(prefix="agent-") as folder:
        fake = FakeAgent(Path(folder) / "agent.sock")
        try:
            yield fake
        finally:
            fake.close()


def blocks(language: str) -> list[str]:
    """Return the page's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def script() -> str:
    """Return the example of a batch script."""
    (found,) = (block for block in blocks("bash") if "roost-progress" in block)
    return found
