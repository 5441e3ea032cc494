"""CUDA MPS for jobs that opted in to share their GPU: started by Prolog, stopped by Epilog.

An MPS server belongs to one user, and makes the clients of others wait until its own have ended.
So the control daemon of a GPU runs as the user of the first job there: later jobs of this user are
its clients, and a job of another user does without and shares the GPU by time slices. A process
can use one control daemon only, so jobs with several GPUs do without too.

FOLDER/3/jobs       root's: a file for each job that is a client
FOLDER/3/pipe, log  the user's: what CUDA_MPS_PIPE_DIRECTORY and CUDA_MPS_LOG_DIRECTORY name

A daemon without clients that does not answer or does not end is killed, with its server: they would
keep memory of the GPU, and nothing would name them any more once their folder is gone. Neither is
killed while the daemon has clients: that would end the clients' jobs. A job whose Epilog did not
run stays marked as a client, until Prolog of the next job on that GPU hears from Slurm that the job
is not on this node.
"""

import contextlib
import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
TIMEOUT_S = 0.15  # of one command: a hook has 0.65 s in all
DRIVER = Path("/proc/driver/nvidia/gpus")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_IN_JOB = re.compile(r"/job_\d+(?:/|$)", re.M)
_COMM = b"nvidia-cuda-mps\n"  # of daemon and server: the kernel has 15 characters of a name
_PATH = "/usr/local/bin:/usr/bin:/bin"
_NO_GROUP = 65_534
_MINOR = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.M)
_UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]{36})\s*$", re.M)


class InsideJob(Exception):
    """Slurm runs this hook in the job's own cgroup: a daemon would be killed with that job."""

    def __init__(self) -> None:
        super().__init__("no MPS under PrologFlags=RunInJob: its daemon would end with this job")


@dataclass(frozen=True, slots=True)
class Mps:
    """The control daemons of this node.

    Attributes:
        folder: root's folder; each GPU has a folder below it.
        search_path: where the control program is looked for.
        driver: the driver's folder with a file for each GPU, which has its UUID.
        cgroups: of this process.
    """

    folder: Path
    search_path: str = _PATH
    driver: Path = DRIVER
    cgroups: Path = _OWN_CGROUPS

    def start(
        self,
        job_id: int,
        user_id: int,
        gpu: int,
        jobs_on_node: Callable[[], Collection[int] | None] = lambda: None,
    ) -> bool:
        """Make a job a client of its GPU's control daemon, which is started if it does not run.

        Args:
            job_id: the job.
            user_id: its user.
            gpu: its GPU's index.
            jobs_on_node: returns the jobs that Slurm has here, None where it does not answer;
                called where the GPU has other clients.

        Returns:
            Whether the job has MPS: not where another user's jobs have it, or where a daemon with
            clients does not answer.

        Raises:
            OSError, subprocess.SubprocessError: the daemon cannot be started.
            InsideJob: it would end with this job, and the other one lose its work.
        """
        if _IN_JOB.search(self.cgroups.read_text(errors="replace")):
            raise InsideJob
        with self._locked():
            place = self.folder / str(gpu)
            owner = self.owner(gpu)
            self._forget_lost(gpu, job_id, jobs_on_node)
            if owner not in (None, user_id) and self._clients(gpu):
                return False
            if owner != user_id or not self._answers(gpu, user_id):
                if self._clients(gpu) and self._processes(gpu):
                    return False  # a busy node, or its server still serves them
                self._clear(gpu)  # left by earlier jobs, or by a crash
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
            for mark in list(self.folder.glob(f"[0-9]*/jobs/{job_id}")):
                place = mark.parent.parent
                mark.unlink()
                gpu = int(place.name)
                if not self._clients(gpu):
                    self._quit(gpu)

    def lines(self, job_id: int) -> list[str]:
        """Return what a task of the job needs in its environment, in TaskProlog's syntax.

        A client counts the GPUs of its control daemon, which knows one alone.
        """
        for mark in self.folder.glob(f"[0-9]*/jobs/{job_id}"):
            place = mark.parent.parent
            return [
                f"export CUDA_MPS_PIPE_DIRECTORY={place / 'pipe'}",
                f"export CUDA_MPS_LOG_DIRECTORY={place / 'log'}",
                "export CUDA_VISIBLE_DEVICES=0",
            ]
        return []

    def owner(self, gpu: int) -> int | None:
        """Return the user whose control daemon a GPU has; None: it has none."""
        try:
            return (self.folder / str(gpu) / "pipe").lstat().st_uid
        except FileNotFoundError:
            return None

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

    def _clients(self, gpu: int) -> list[Path]:
        return list((self.folder / str(gpu) / "jobs").glob("*"))

    def _forget_lost(
        self, gpu: int, job_id: int, jobs_on_node: Callable[[], Collection[int] | None]
    ) -> None:
        """Remove the marks of clients that Slurm does not have: their Epilog did not run.

        An answer without the job whose Prolog this is tells nothing of the others.
        """
        others = [mark for mark in self._clients(gpu) if mark.name != str(job_id)]
        known = jobs_on_node() if others else None
        if known is None or job_id not in known:
            return
        for mark in others:
            if not mark.name.isdecimal() or int(mark.name) not in known:
                mark.unlink(missing_ok=True)

    def _launch(self, gpu: int, user_id: int) -> None:
        place = self.folder / str(gpu)
        try:
            for folder in (place, place / "jobs"):
                folder.mkdir()
                folder.chmod(0o755)  # whatever umask slurmd has
            for name in ("pipe", "log"):
                (place / name).mkdir(mode=0o700)
                os.chown(place / name, user_id, -1)
            self._run((CONTROL, "-d"), "", gpu, user_id)
        except BaseException:
            self._clear(gpu)
            raise

    def _quit(self, gpu: int) -> None:
        """Stop a control daemon that has no clients."""
        owner = self.owner(gpu)
        if owner is not None:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                self._ask("quit", gpu, owner)
        self._clear(gpu)

    def _clear(self, gpu: int) -> None:
        """Remove a GPU's folder, and kill what still runs of its daemon and server."""
        for process_id in self._processes(gpu):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        # A process of the user may fill its folders while they are emptied: so they lose their name
        # first. What cannot be removed now is removed the next time, and keeps no job away.
        with contextlib.suppress(FileNotFoundError):
            (self.folder / str(gpu)).rename(self.folder / f".gone.{gpu}.{os.getpid()}")
        for gone in self.folder.glob(".gone.*"):
            shutil.rmtree(gone, ignore_errors=True)

    def _processes(self, gpu: int) -> list[int]:
        """Return the processes of a GPU's control daemon and server.

        Any user may give a process this name and this variable. Such a process is killed too, which
        harms that user alone.
        """
        named = f"CUDA_MPS_PIPE_DIRECTORY={self.folder / str(gpu) / 'pipe'}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "comm").read_bytes() != _COMM:
                    continue
                if named in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

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
        if not self.folder.exists():
            self.folder.mkdir(exist_ok=True)
            self.folder.chmod(0o755)
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
