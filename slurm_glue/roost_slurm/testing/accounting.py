"""A slurmdbd and its MariaDB for a throw-away cluster: own folder, socket, ports and password."""

import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from roost_slurm.testing.cluster_plan import RunFolder

PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb-admin")
PACKAGES = ("slurmdbd", "mariadb-server")
USERS = ("slurm", "mysql")
_STOP_TIMEOUT_S = 10.0
# Nothing that this database holds is worth a disk write.
_DATABASE_OPTIONS = (
    "--no-defaults",
    "--user=mysql",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--innodb-buffer-pool-size=64M",
    "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    # MariaDB 11.8 turns it on by default; slurmdbd's transactions then fail with error 1020.
    "--loose-innodb-snapshot-isolation=OFF",
)

Spawn = Callable[..., subprocess.Popen[bytes]]
WaitUntil = Callable[[Callable[[], bool], str], None]


class AccountingFailed(Exception):
    """A command of the accounting did not do what it was asked; carries what it printed."""


class LocalAccounting:
    """The accounting of a LocalSlurm, which starts and stops it: its attribute `accounting`.

    Attributes:
        processes: the daemons that run.
    """

    def __init__(
        self, folder: RunFolder, env: dict[str, str], *, slurmdbd_port: int, database_port: int
    ) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._env = env
        self._slurmdbd_port = slurmdbd_port
        self._database_port = database_port
        self._home = folder.root / "database"
        self._password = secrets.token_hex(16)

    # -- life --------------------------------------------------------------------------------

    def start(self, spawn: Spawn, wait_until: WaitUntil) -> None:
        """Start both daemons, before slurmctld, and make the cluster known: about 3 s."""
        self._make_database()
        self.processes.append(spawn(*self._database_argv()))
        wait_until(self._database_answers, "MariaDB does not answer")
        self._write_slurmdbd_conf()
        account = pwd.getpwnam("slurm")
        identity = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups")
        self.processes.append(spawn("setpriv", *identity, "slurmdbd", "-D"))
        wait_until(self._slurmdbd_answers, "slurmdbd does not answer")
        self.sacctmgr("add", "cluster", "local")

    def stop(self) -> None:
        """End the daemons that start() started."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)  # no state is worth saving
            process.wait(_STOP_TIMEOUT_S)
        self.processes.clear()

    # -- who may do what ---------------------------------------------------------------------

    def sacctmgr(self, *words: str) -> str:
        """Run sacctmgr without questions and return its stdout.

        Raises:
            AccountingFailed: it exited with another code than 0.
        """
        argv = ("sacctmgr", "--immediate", "--noheader", "--parsable2", *words)
        done = self._run(*argv)
        if done.returncode:
            said = (done.stderr + done.stdout).strip()
            raise AccountingFailed(f"{' '.join(argv)}: {said or done.returncode}")
        return done.stdout

    def add_account(self, name: str, **limits: object) -> None:
        """Add an account; a limit is written as in GrpTRES="gres/gpu=4"."""
        self.sacctmgr("add", "account", name, *_words(limits))

    def add_user(
        self, name: str, account: str, *, qos: tuple[str, ...] = (), **limits: object
    ) -> None:
        """Let a user of this machine submit jobs to an account, with these QoS beside normal.

        root may submit to the account root without.
        """
        values = {"Account": account, "QOS": ",".join(("normal", *qos))} | limits
        self.sacctmgr("add", "user", name, *_words(values))

    def add_qos(self, name: str, **limits: object) -> None:
        """Add a QoS; a limit is written as in Preempt="low"."""
        self.sacctmgr("add", "qos", name, *_words(limits))

    def change(self, kind: str, name: str, **values: object) -> None:
        """Change an account, a user or a QoS; -1 lifts a limit: MaxTRESPerUser="gres/gpu=-1"."""
        self.sacctmgr("modify", kind, name, "set", *_words(values))

    # -- parts -------------------------------------------------------------------------------

    def _make_database(self) -> None:
        self._home.mkdir()
        init = self._home / "init.sql"
        init.write_text(  # one statement a line, or MariaDB reads only the first
            f"CREATE USER 'slurm'@'127.0.0.1' IDENTIFIED BY '{self._password}';\n"
            "GRANT ALL ON acct.* TO 'slurm'@'127.0.0.1';\n"
        )
        init.chmod(0o600)
        for path in (self._home, init):
            shutil.chown(path, "mysql", "mysql")
        done = self._run(
            "mariadb-install-db",
            *_DATABASE_OPTIONS,
            f"--datadir={self._home}/data",
            f"--tmpdir={self._home}",
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
        )
        if done.returncode:
            raise AccountingFailed(f"mariadb-install-db: {(done.stderr + done.stdout).strip()}")

    def _database_argv(self) -> tuple[str, ...]:
        return (
            "mariadbd",
            *_DATABASE_OPTIONS,
            f"--datadir={self._home}/data",
            f"--tmpdir={self._home}",
            f"--socket={self._socket}",
            f"--port={self._database_port}",
            f"--pid-file={self._home}/pid",
            f"--log-error={self._home}/mariadb.log",
            f"--init-file={self._home}/init.sql",
        )

    @property
    def _socket(self) -> Path:
        return self._home / "socket"

    def _write_slurmdbd_conf(self) -> None:
        lines = (
            "AuthType=auth/munge",
            f"AuthInfo=socket={self._folder.munge_socket}",
            "DbdHost=localhost",
            "DbdAddr=127.0.0.1",
            f"DbdPort={self._slurmdbd_port}",
            "SlurmUser=slurm",
            "DebugLevel=info",
            f"LogFile={self._folder.log}/slurmdbd.log",
            f"ArchiveDir={self._folder.log}",  # it must be writable, though nothing is archived
            f"PidFile={self._folder.root}/pids/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={self._database_port}",
            "StorageUser=slurm",
            f"StoragePass={self._password}",
            "StorageLoc=acct",
        )
        conf = self._folder.etc / "slurmdbd.conf"  # looked for beside slurm.conf
        conf.touch(0o600)
        conf.write_text("\n".join(lines) + "\n")
        shutil.chown(conf, "slurm")

    def _database_answers(self) -> bool:
        argv = ("mariadb-admin", "--no-defaults", f"--socket={self._socket}", "ping")
        return self._run(*argv).returncode == 0

    def _slurmdbd_answers(self) -> bool:
        return self._run("sacctmgr", "--noheader", "list", "cluster").returncode == 0

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, env=self._env, capture_output=True, text=True, timeout=60.0, check=False
        )


def _words(values: Mapping[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]
