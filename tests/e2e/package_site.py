"""A site of three machines without Roost: Slurm under systemd, one controller and two GPU nodes.

Each container is a clean Debian with Slurm's packages; nothing of Roost is on it until the tests
install the packages. GPUs come from the fake driver, whose program is in the package.
"""

import base64
import os
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from tests.e2e.containers import ContainersFailed, Engine

CONTROLLER, NODES = "control1", ("gpu1", "gpu2")
MACHINES = (CONTROLLER, *NODES)
BOUND_S = 120.0  # of each state; the machine may be busy
DRIVER = "/etc/fake-driver"  # a file to source before a probe by hand
_FAKE_DRIVER = "/var/lib/fake-nvml"
_POLL_S = 0.5
# The site's own configuration: GPUs typed by model, a submit script and a prolog of its own.
_SLURM_CONF = """\
ClusterName=site
SlurmctldHost=control1
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=2
MailProg=/bin/true
GresTypes=gpu
JobSubmitPlugins=lua
Prolog=/etc/slurm/site-prolog
NodeName=gpu1 Gres=gpu:a100:8 Sockets=2 CoresPerSocket=16 RealMemory=4000 State=UNKNOWN
NodeName=gpu2 Gres=gpu:a100:8 Sockets=2 CoresPerSocket=16 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
"""
_GRES_CONF = "NodeName=gpu[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n"
_SUBMIT = """\
-- The site's own: every job gets a comment.
function slurm_job_submit(job, partitions, uid)
  if job.comment == nil then job.comment = "seen by the site" end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
"""
_PROLOG = "#!/bin/sh\necho $SLURM_JOB_ID >>/var/log/site-prolog\n"


class PackageSite:
    """The three machines; use it as a context manager."""

    def __init__(self, engine: Engine, suite: str, packages: Path) -> None:
        self._engine = engine
        self._suite = suite
        self._packages = packages
        self._name = f"roost-packages-{suite}-{os.getpid()}"
        self._started: list[str] = []

    def __enter__(self) -> Self:
        self._engine.run("docker", "network", "create", "--internal", self._name)
        self._engine.run("docker", "volume", "create", self._name)
        try:
            for machine in MACHINES:
                self._start(machine)
            for machine in MACHINES:
                self.wait_until(partial(self._has_booted, machine), f"{machine} is not up")
            self._start_slurm()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the machines."""
        for machine in self._started:
            self._engine.run("docker", "rm", "--force", "--volumes", self._container(machine))
        self._engine.run("docker", "volume", "rm", self._name, check=False)
        self._engine.run("docker", "network", "rm", self._name)

    # -- commands ----------------------------------------------------------------------------

    def shell(self, machine: str, script: str, check: bool = True) -> str:
        """Run a shell script as root, in the folder with the packages."""
        place = ("docker", "exec", "--workdir", "/packages", self._container(machine))
        return self._engine.run(*place, "sh", "-c", script, check=check)

    def write(self, machine: str, path: str, text: str) -> None:
        """Write a file, and its folder."""
        coded = base64.b64encode(text.encode()).decode()
        self.shell(machine, f"mkdir -p $(dirname {path}) && echo {coded} | base64 -d >{path}")

    def copy(self, paths: Sequence[str], machine: str, folder: str) -> None:
        """Copy files of the controller to a node, with their rights, as scp -p does as root."""
        archive = self.shell(CONTROLLER, f"tar -cf - {' '.join(paths)} 2>/dev/null | base64 -w0")
        unpack = f"tar -C {folder} --transform 's|.*/||' -xf -"
        self.shell(machine, f"echo {archive.strip()} | base64 -d | {unpack}")

    def submit(self, *options: str, seconds: int = 3600) -> str:
        """Submit a job as an ordinary user; return its id."""
        words = " ".join(options)
        wrap = f"sbatch --parsable --chdir=/tmp --output=/dev/null {words} --wrap='sleep {seconds}'"
        return self.shell(CONTROLLER, f"runuser -u alice -- {wrap}").strip()

    def states(self) -> dict[str, tuple[str, str]]:
        """The state and the reason of every job that is not forgotten yet."""
        rows = self.shell(CONTROLLER, "squeue -h -t all -o '%i %T %r'").splitlines()
        return {row.split()[0]: (row.split()[1], row.split()[2]) for row in rows}

    def node_states(self) -> dict[str, str]:
        """The state of each node, in sinfo's words."""
        rows = self.shell(CONTROLLER, "sinfo -h -N -o '%N %T'").splitlines()
        return {row.split()[0]: row.split()[1] for row in rows}

    def wait_until(
        self, fact: Callable[[], bool], complaint: str, timeout_s: float = BOUND_S
    ) -> None:
        """Poll until something holds; a command that fails meanwhile counts as "not yet".

        Raises:
            ContainersFailed: it does not, in time.
        """
        deadline = time.monotonic() + timeout_s
        last = ""
        while True:
            try:
                if fact():
                    return
            except ContainersFailed as error:
                last = str(error)
            if time.monotonic() > deadline:
                raise ContainersFailed(f"{complaint} after {timeout_s:g} s\n{last}\n{self._logs()}")
            time.sleep(_POLL_S)

    def wait_running(self, *job_ids: str) -> None:
        """Wait until these jobs run, or have run."""
        good = ("RUNNING", "COMPLETING", "COMPLETED")
        self.wait_until(
            lambda: all(self.states()[job][0] in good for job in job_ids),
            f"jobs {job_ids} do not run",
        )

    def add_gpus(self, machine: str) -> None:
        """Give a node its fake driver, and its probe the way to it; needs the packages."""
        # The driver's program reads YAML, which nodes have no other use for.
        python = "PYTHONPATH=/packages/yaml.zip /opt/roost/bin/python"
        self.shell(
            machine,
            f"mkdir -p {_FAKE_DRIVER} && {python} -m roost_probe.testing create"
            f" --topology bridges8 --node {machine} --state {_FAKE_DRIVER}/state"
            f" --lib-dir {_FAKE_DRIVER} --sysfs {_FAKE_DRIVER}/sys"
            f" && chmod 666 {_FAKE_DRIVER}/state",
        )
        self.write(
            machine,
            "/etc/systemd/system/roost-probe.service.d/driver.conf",
            f"[Service]\nEnvironment=ROOST_FAKE_NVML_STATE={_FAKE_DRIVER}/state"
            f" LD_LIBRARY_PATH={_FAKE_DRIVER}\nReadWritePaths={_FAKE_DRIVER}\n",
        )
        self.write(
            machine,
            DRIVER,
            f"export ROOST_FAKE_NVML_STATE={_FAKE_DRIVER}/state LD_LIBRARY_PATH={_FAKE_DRIVER}\n",
        )
        self.shell(machine, "systemctl daemon-reload")

    # -- parts -------------------------------------------------------------------------------

    def _container(self, machine: str) -> str:
        return f"{self._name}-{machine}"

    def _start(self, machine: str) -> None:
        rights = ("--cap-add", "SYS_ADMIN", "--cgroupns", "private", "--tmpfs", "/run")
        place = ("--hostname", machine, "--network", self._name, "--network-alias", machine)
        # Many sites share Slurm's folder; here it is a volume.
        folders = (
            "--volume",
            f"{self._name}:/etc/slurm",
            "--volume",
            f"{self._packages}:/packages",
        )
        name = ("--detach", "--name", self._container(machine))
        self._engine.run(
            *("docker", "run", *name, *place, *rights, *folders, f"roost/clean:{self._suite}")
        )
        self._started.append(machine)

    def _has_booted(self, machine: str) -> bool:
        return self.shell(machine, "systemctl is-system-running", check=False).strip() == "running"

    def _start_slurm(self) -> None:
        for name, text in (
            ("slurm.conf", _SLURM_CONF),
            ("gres.conf", _GRES_CONF),
            ("cgroup.conf", "CgroupPlugin=cgroup/v1\n"),
            ("job_submit.lua", _SUBMIT),
            ("site-prolog", _PROLOG),
        ):
            self.write(CONTROLLER, f"/etc/slurm/{name}", text)
        self.shell(CONTROLLER, "chmod 755 /etc/slurm/site-prolog")
        key = base64.b64encode(secrets.token_bytes(128)).decode()
        for machine in MACHINES:
            self.shell(
                machine,
                f"echo {key} >/etc/munge/munge.key && chown -R munge: /etc/munge"
                " && chmod 400 /etc/munge/munge.key && systemctl start munge",
            )
        self.shell(
            CONTROLLER,
            "install -d -o slurm -g slurm /var/spool/slurmctld && systemctl start slurmctld",
        )
        for node in NODES:
            devices = " && ".join(f"mknod -m 666 /dev/nvidia{i} c 240 {i}" for i in range(8))
            self.shell(node, f"{devices} && mkdir -p /var/spool/slurmd && systemctl start slurmd")
        self.wait_until(
            lambda: set(self.node_states().values()) == {"idle"}, "the nodes did not register"
        )

    def _logs(self) -> str:
        told = [self.shell(CONTROLLER, "squeue -l; sinfo -Nl", check=False)]
        for machine in MACHINES:
            log = self.shell(machine, "journalctl --no-pager -n25 -o cat", check=False)
            told.append(f"{machine}:\n{log}")
        return "\n".join(told)
