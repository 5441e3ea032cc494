"""cli_filter.lua in the interpreter that Slurm embeds: what it makes of a user's options."""

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa import lua51

from roost_slurm.site import submit_script

Options: TypeAlias = dict[str, str]

NAMES = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "tres-per-task")
GPUS = ("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")


class Command:
    """sbatch, salloc or srun: calls the script with options whose unset fields read nil."""

    def __init__(self, kind: str = "srun", models: tuple[str, ...] = ("a100", "h100")) -> None:
        self.kind = kind
        self.lua = lua51.LuaRuntime(unpack_returned_tuples=True)
        self.faults: list[str] = []
        self.lua.globals().slurm = self.lua.table_from(
            {"SUCCESS": 0, "ERROR": -1, "log_debug": lambda form, *v: self.faults.append(form % v)}
        )
        assert self.lua.execute(submit_script.render_cli_filter(models)) == 0

    def ask(self, options: Options, **environment: str) -> Options:
        """Return the options as they are after the call."""
        self.lua.globals().os = self.lua.table_from({"getenv": environment.get})
        table = self.lua.table_from({"type": self.kind, **options})
        calls = self.lua.globals()
        assert calls.slurm_cli_setup_defaults(table, False) == 0
        assert calls.slurm_cli_pre_submit(table, 0) == 0
        assert calls.slurm_cli_post_submit(0, 1, 0) == 0
        return {name: value for name, value in table.items() if name != "type"}


@pytest.mark.parametrize("kind", ["sbatch", "salloc", "srun"])
@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize(
    ("asked", "becomes"), [("h100:2", "2"), ("h100", "1"), ("H100:2", "2"), ("h100:16", "16")]
)
def test_a_model_becomes_a_constraint(kind: str, name: str, asked: str, becomes: str) -> None:
    assert Command(kind).ask({name: asked}) == {name: becomes, "constraint": "h100"}


@pytest.mark.parametrize(
    ("name", "asked", "becomes"),
    [
        ("gres", "gres:gpu:h100:2", "gres:gpu:2"),  # 22.05
        ("gres", "gres/gpu:h100:2", "gres/gpu:2"),  # 24.11
        ("gres", "gres/gpu:h100", "gres/gpu"),
        ("gres", "gres:gpu:h100:2,gres:nic:1", "gres:gpu:2,gres:nic:1"),
        ("tres-per-task", "cpu=2,gres/gpu:h100=2", "cpu=2,gres/gpu=2"),
    ],
)
def test_lists_of_gres_keep_everything_else(name: str, asked: str, becomes: str) -> None:
    assert Command().ask({name: asked}) == {name: becomes, "constraint": "h100"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gpus": "2"},
        {"gres": "gres:gpu:2"},
        {"gres": "gres:nic:h100:1"},
        {"gres": "none"},
        {"gpus": "v100:2"},
        {"gpus": "g3:1"},
        {"gres": "gres:gpu:g3:1,gres:gpu:g5:1"},
        {"gres": "gres:gpu:h100:1,gres:gpu:g5:1"},
        {"gpus": "h100:1,a100:1"},
        {"gpus": "h100:2", "gpus-per-node": "a100:1"},
        {"gpus": "h100:2", "clusters": "other"},  # -M, or SLURM_CLUSTERS
        {"gres": "gres:gpu:h100:2", "clusters": "all"},
    ],
)
def test_leaves_to_slurm_what_names_no_model_or_two(options: Options) -> None:
    command = Command()
    assert command.ask(options) == options
    assert command.faults == []


@pytest.mark.parametrize(
    ("constraint", "becomes"),
    [("big", "big&h100"), ("h100", "h100"), ("big&h100", "big&h100"), ("x|y", "x|y&h100")],
)
def test_keeps_the_users_own_constraint(constraint: str, becomes: str) -> None:
    asked = Command().ask({"gpus": "h100:2", "constraint": constraint})
    assert asked["constraint"] == becomes


def test_a_step_gets_no_constraint() -> None:
    inside = {"SLURM_JOB_ID": "7"}
    assert Command().ask({"gpus": "h100:2"}, **inside) == {"gpus": "2"}
    assert Command().ask({"gpus": "h100:2", "jobid": "7"}) == {"gpus": "2", "jobid": "7"}
    assert "constraint" in Command().ask({"gpus": "h100:2", "jobid": "unset"})


@pytest.mark.parametrize("kind", ["sbatch", "salloc"])
def test_a_job_submitted_inside_a_job_gets_its_constraint(kind: str) -> None:
    asked = Command(kind).ask({"gpus": "h100:2"}, SLURM_JOB_ID="7")
    assert asked == {"gpus": "2", "constraint": "h100"}


def test_a_fault_leaves_the_request_and_the_command_continues() -> None:
    command = Command()
    command.lua.execute("table.concat = nil")
    assert command.ask({"gpus": "h100:2"}) == {"gpus": "h100:2"}
    assert command.faults


def test_without_models_nothing_is_touched() -> None:
    assert Command(models=()).ask({"gpus": "h100:2"}) == {"gpus": "h100:2"}


@given(
    st.dictionaries(st.sampled_from([*NAMES, "constraint"]), st.text("gresu:/=,h10 ", max_size=30))
)
def test_no_command_is_ever_stopped(options: Options) -> None:
    command = Command()
    command.ask(options)  # asserts SUCCESS
    assert command.faults == []
