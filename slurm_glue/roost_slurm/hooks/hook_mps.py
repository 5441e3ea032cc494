"""CUDA MPS for jobs that opted in to share their GPU: started by Prolog, stopped by Epilog.

An MPS server belongs to one user, and makes the clients of others wait until its own have ended.
So the control daemon of a GPU runs as the user of the first job there: later jobs of this user are
its clients, and a job of another user does without and shares the GPU by time slices. A process
can use one control daemon only, so jobs with several GPUs do without too.

FOLDER/3/jobs       root's: a file for each job that is a client
FOLDER/3/pipe, log  the user's: what CUDA_MPS_PIPE_DIRECTORY and CUDA_MPS_LOG_DIRECTORY name
"""

import contextlib
import fcntl
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
TIMEOUT_S = 0.15  # of one command: a hook has 0.65 s in all
DRIVER = Path("/proc/driver/nvidia/gpus")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_NO_GROUP = 65_534
_MINOR = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.M)
_UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]{36})\s*$", re.M)


@dataclass(frozen=True, slots=True)
class Mps:
    """The control daemons of this node.

    Attributes:
        folder: of root's, below which each GPU has a folder.
        search_path: where the control program is looked for.
        driver: the driver's folder with a file for each GPU, which has its UUID.
    """

    folder: Path
    search_path: str = _PATH
    driver: Path = DRIVER

    def start(self, job_id: int, user_id: int, gpu: int) -> bool:
        """Make a job a client of its GPU's control daemon, which is started if it does not run.

        Returns:
            Whether the job has MPS: not where another user's jobs have it.

        Raises:
            OSError, subprocess.SubprocessError: the daemon cannot be started.
        """
        with self._locked():
            place = self.folder / str(gpu)
            if place.exists():
                if any((place / "jobs").iterdir()) and self.owner(gpu) != user_id:
                    return False
                if self.owner(gpu) != user_id or not self._answers(gpu, user_id):
                    # Left by jobs of before, or crashed; clients of a crashed server are lost.
                    shutil.rmtree(place)
            if not place.exists():
                self._launch(gpu, user_id)
            (place / "jobs" / str(job_id)).touch()
            return True

    def stop(self, job_id: int) -> None:
        """Forget a client, and stop the control daemon after the last one.

        Raises:
            OSError: the folder cannot be changed.
        """
        if not self.folder.is_dir():
            return
        with self._locked():
            for mark in list(self.folder.glob(f"*/jobs/{job_id}")):
                place = mark.parent.parent
                mark.unlink()
                if any(mark.parent.iterdir()):
                    continue
                gpu = int(place.name)
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    self._ask("quit", gpu, self.owner(gpu))
                shutil.rmtree(place)

    def lines(self, job_id: int) -> list[str]:
        """Return what a task of the job needs in its environment, in TaskProlog's syntax.

        A client counts the GPUs of its control daemon, which knows one alone.
        """
        for mark in self.folder.glob(f"*/jobs/{job_id}"):
            place = mark.parent.parent
            return [
                f"export CUDA_MPS_PIPE_DIRECTORY={place / 'pipe'}",
                f"export CUDA_MPS_LOG_DIRECTORY={place / 'log'}",
                "export CUDA_VISIBLE_DEVICES=0",
            ]
        return []

    def owner(self, gpu: int) -> int:
        """Return the user whose control daemon a GPU has."""
        return (self.folder / str(gpu) / "pipe").lstat().st_uid

    def device(self, gpu: int) -> str:
        """Return what names a GPU to CUDA: its UUID where the driver tells it, else its index.

        GPU 3 of gres.conf is the one with the fourth lowest minor number.
        """
        uuids = {}
        for path in self.driver.glob("*/information"):
            text = path.read_text(encoding="ascii", errors="replace")
            minor, uuid = _MINOR.search(text), _UUID.search(text)
            if minor and uuid:
                uuids[int(minor[1])] = uuid[1]
        known = [uuids[minor] for minor in sorted(uuids)]
        return known[gpu] if gpu < len(known) else str(gpu)

    def _launch(self, gpu: int, user_id: int) -> None:
        place = self.folder / str(gpu)
        try:
            (place / "jobs").mkdir(parents=True)
            for name in ("pipe", "log"):
                (place / name).mkdir(mode=0o700)
                os.chown(place / name, user_id, -1)
            self._run((CONTROL, "-d"), "", gpu, user_id)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise

    def _answers(self, gpu: int, user_id: int) -> bool:
        try:
            self._ask("get_server_list", gpu, user_id)
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def _ask(self, question: str, gpu: int, user_id: int) -> None:
        self._run((CONTROL,), f"{question}\n", gpu, user_id)

    def _run(self, argv: tuple[str, ...], text: str, gpu: int, user_id: int) -> None:
        """Run the control program as the daemon's user: its folders are that user's."""
        program = shutil.which(argv[0], path=self.search_path)
        if program is None:
            raise FileNotFoundError(f"no {argv[0]} in {self.search_path}")
        place = self.folder / str(gpu)
        subprocess.run(
            (program, *argv[1:]),
            env={
                "PATH": _PATH,
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
                "CUDA_VISIBLE_DEVICES": self.device(gpu),
                "CUDA_MPS_PIPE_DIRECTORY": str(place / "pipe"),
                "CUDA_MPS_LOG_DIRECTORY": str(place / "log"),
            },
            input=text.encode(),
            stdout=subprocess.DEVNULL,  # a daemon that kept a pipe open would be waited for
            stderr=subprocess.DEVNULL,
            user=user_id,
            group=_group_of(user_id),
            extra_groups=(),
            cwd="/",
            start_new_session=True,
            timeout=TIMEOUT_S,
            check=True,
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o755, exist_ok=True)
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _group_of(user_id: int) -> int:
    try:
        return pwd.getpwuid(user_id).pw_gid
    except KeyError:
        return _NO_GROUP
