"""Fixtures for real components: skipped with a reason where they are missing, failed in CI."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from tests.file_order import file_order
from xdist.remote import Producer

from roost_probe.testing.library import LIBRARY_FOLDER
from roost_slurm.testing.availability import LocalSlurmUnavailable, check_available
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm

with suppress(ImportError):  # the containers of tests/e2e have none
    from hypothesis import HealthCheck, settings

    # No example is bound by the clock, and CI tries the same examples each time.
    settings.register_profile(
        "roost",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=bool(os.environ.get("CI")),
    )
    settings.load_profile("roost")

LocalSlurmFactory = Callable[[ClusterPlan], LocalSlurm]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files again; review the diff"
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts so what it puts into the background, and every program inherits it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if LIBRARY_FOLDER not in os.environ:  # workers inherit it
        os.environ[LIBRARY_FOLDER] = tempfile.mkdtemp(prefix="roost-nvml-")
        config.add_cleanup(
            lambda: shutil.rmtree(os.environ.pop(LIBRARY_FOLDER), ignore_errors=True)
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> object:
    return file_order(config, log) if config.option.dist == "loadfile" else None


def missing(reason: str) -> None:
    """Skip the test, or fail it where ROOST_REQUIRE_REAL=1 says that nothing may be missing."""
    if os.environ.get("ROOST_REQUIRE_REAL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def local_slurm_factory() -> Iterator[LocalSlurmFactory]:
    """Start real throw-away clusters; they stop at the end of the module."""
    try:
        check_available()
    except LocalSlurmUnavailable as error:
        missing(str(error))
    with ExitStack() as stack:
        yield lambda plan: stack.enter_context(LocalSlurm(plan))


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter.

    Not below pytest's own, which every session that begins on this machine closes to all but root.
    """
    with tempfile.TemporaryDirectory(prefix="roost-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def public_folder() -> Iterator[Path]:
    """A folder that SlurmUser and ordinary users can enter."""
    with open_folder() as folder:
        yield folder
