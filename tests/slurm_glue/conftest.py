"""Helpers that several tests of the glue share."""

import time
from pathlib import Path

import pytest

from roost_slurm.hooks import heartbeat
from roost_slurm.hooks.heartbeat import Heartbeat
from roost_slurm.site import submit_script


class Runtime:
    """A runtime folder as roostd keeps it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.heartbeat_file = root / "heartbeat"
        self.spool_file = root / "spool" / "events"
        self.spool_file.parent.mkdir()

    def beat(
        self,
        lease_s: int = 30,
        enforce: tuple[str, ...] = ("*",),
        excepted: tuple[str, ...] = (),
        models: tuple[str, ...] = (),
        age_s: int = 0,
        accounts: tuple[str, ...] = (),
        qos: tuple[str, ...] = (),
        share_qos: tuple[str, ...] = (),
        owner: str = "",
        registered_epoch_s: int | None = None,
    ) -> None:
        """Write a heartbeat."""
        beat = Heartbeat(
            at_epoch_s=int(time.time()) - age_s,
            lease_s=lease_s,
            enforce=enforce,
            excepted=excepted,
            models=models,
            accounts=accounts,
            qos=qos,
            share_qos=share_qos,
            owner=owner,
            registered_epoch_s=registered_epoch_s,
        )
        heartbeat.write(self.heartbeat_file, beat)

    def stop_beating(self) -> None:
        """Take the heartbeat away."""
        self.heartbeat_file.unlink(missing_ok=True)

    def script(
        self,
        models: tuple[str, ...] = (),
        *,
        only_model: str = "",
        counts_models: bool = False,
        seats: bool = False,
    ) -> str:
        """job_submit.lua for this folder."""
        return submit_script.render(
            self.heartbeat_file,
            self.spool_file,
            models,
            only_model=only_model,
            counts_models=counts_models,
            seats=seats,
        )

    def spool_lines(self) -> list[str]:
        """What is in the spool."""
        return self.spool_file.read_text().splitlines() if self.spool_file.exists() else []


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """A runtime folder without a heartbeat."""
    root = tmp_path / "run"
    root.mkdir()
    return Runtime(root)
