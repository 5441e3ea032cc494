"""job_submit.lua in the interpreter that Slurm embeds: what it changes, and what it leaves."""

import errno
import os
import time
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lupa import lua51
from tests.slurm_glue.conftest import Runtime

from roost_slurm.hooks import spool

Job: TypeAlias = dict[str, Any]

NO_VAL, NO_VAL_16 = 4294967294, 65534
# What Slurm 22.05 hands over for `sbatch` without options.
PLAIN: Job = {
    "shared": NO_VAL_16,
    "het_job_offset": NO_VAL,
    "immediate": 0,
    "cron_job": False,
    "begin_time": 0,
}
FORMS = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")


class Slurmctld:
    """Calls the script as slurmctld does: with a job whose unset fields read nil."""

    def __init__(self, script: str) -> None:
        self.lua = lua51.LuaRuntime(unpack_returned_tuples=True)
        self.errors: list[str] = []
        self.lua.globals().slurm = self.lua.table_from(
            {"SUCCESS": 0, "ERROR": -1, "log_error": self._log_error}
        )
        assert self.lua.execute(script) == 0
        self.partitions = self.lua.table_from(
            {
                "main": self.lua.table_from({"flag_default": 1}),
                "debug": self.lua.table_from({"flag_default": 0}),
            }
        )

    def _log_error(self, form: str, *values: object) -> None:
        self.errors.append(form % values)

    def submit(self, job: Job, uid: int = 1000) -> Job:
        """Return the job as it is after the call."""
        answer, after = self.answer(job, uid)
        assert answer == 0
        return after

    def answer(self, job: Job, uid: int = 1000) -> tuple[int, Job]:
        """Return the answer to a submission, and the job as it is after the call."""
        table = self.lua.table_from({**PLAIN, **job})
        answer = self.lua.globals().slurm_job_submit(table, self.partitions, uid)
        return answer, dict(table.items())

    def modify(self, update: Job, record: Job) -> Job:
        """Return an update of a job as it is after the call."""
        table = self.lua.table_from(update)
        known = self.lua.table_from(record)
        assert self.lua.globals().slurm_job_modify(table, known, self.partitions, 0) == 0
        return dict(table.items())


def changes(slurmctld: Slurmctld, job: Job) -> Job:
    """What a submission changed."""
    before = {**PLAIN, **job}
    return {k: v for k, v in slurmctld.submit(job).items() if before.get(k) != v}


@pytest.fixture
def slurmctld(runtime: Runtime) -> Slurmctld:
    runtime.beat(lease_s=30, models=("a100", "h100"))
    return Slurmctld(runtime.script())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("request_text", ["gres:gpu:2", "gres/gpu:2", "gres/gpu=2", "gres:gpu"])
def test_holds_every_way_to_ask_for_gpus(
    slurmctld: Slurmctld, form: str, request_text: str
) -> None:
    before = time.time()
    changed = changes(slurmctld, {form: request_text})
    assert changed.pop("admin_comment") == "roost:lease"
    assert before + 28 <= changed.pop("begin_time") <= time.time() + 30
    assert changed == {}


def test_a_lease_names_the_owner_of_the_heartbeat(runtime: Runtime) -> None:
    runtime.beat(owner="1f2e3d4c")
    slurmctld = Slurmctld(runtime.script())
    held = changes(slurmctld, {"tres_per_node": "gres:gpu:1"})
    assert held["admin_comment"] == "roost:lease owner=1f2e3d4c"
    begin = int(time.time()) + 600
    later = changes(slurmctld, {"tres_per_node": "gres:gpu:1", "begin_time": begin})
    assert later["admin_comment"] == f"roost:lease owner=1f2e3d4c begin={begin}"


@pytest.mark.parametrize(
    "job",
    [
        {},
        {"tres_per_node": "gres:gpu:0"},
        {"tres_per_node": "gres:none"},
        {"tres_per_node": "gres:shard:2"},
        {"tres_per_node": "gres:gpu_mem:2"},
        {"tres_per_node": "gres:mygpu:2"},
        {"tres_per_node": "gres:gpu:g0:1,gres:gpu:g3:1"},
        {"tres_per_node": "gres:gpu:s0:1"},
        {"tres_per_node": "gres:gpu:v100:1"},
        {"tres_per_node": "gres:gpu:1g.5gb:1"},
        {"tres_per_job": "gres:gpu:a100:1,gres:gpu:h100:1"},
        {"tres_per_job": "gres:gpu:a100:1", "tres_per_node": "gres:gpu:g1:1"},
        {"tres_per_node": "gres:gpu:2", "shared": 0},
        {"tres_per_node": "gres:gpu:2", "shared": 2},
        {"tres_per_node": "gres:gpu:2", "shared": 3},
        {"tres_per_node": "gres:gpu:2", "shared": 4},  # --exclusive=topo
        {"tres_per_node": "gres/gpu:2", "segment_size": 2},
        {"tres_per_node": "gres:gpu:2", "het_job_offset": 0},
        {"tres_per_node": "gres:gpu:2", "het_job_offset": 1},
        {"tres_per_node": "gres:gpu:2", "immediate": 1},
        {"tres_per_node": "gres:gpu:2", "cron_job": True},
        {"tres_per_node": "gres:gpu:2", "reservation": "maint"},
    ],
)
def test_leaves_to_slurm_what_is_not_for_it(slurmctld: Slurmctld, job: Job) -> None:
    assert changes(slurmctld, job) == {}
    assert slurmctld.errors == []


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ("gres:gpu:a100:2", "gres:gpu:2"),
        ("gres/gpu:a100:2", "gres/gpu:2"),
        ("gres/gpu:a100=2", "gres/gpu=2"),
        ("gres:gpu:A100:2", "gres:gpu:2"),
        ("gres:gpu:a100", "gres:gpu"),
        ("gpu:a100:2", "gpu:2"),
        ("gres:gpu:a100:2,gres:nic:1", "gres:gpu:2,gres:nic:1"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_a_model_becomes_a_feature(
    slurmctld: Slurmctld, form: str, asked: str, becomes: str
) -> None:
    changed = changes(slurmctld, {form: asked})
    assert (changed[form], changed["features"]) == (becomes, "a100")


@pytest.mark.parametrize(
    ("features", "becomes"), [("", "a100"), ("big", "big&a100"), ("x|y", "x|y&a100")]
)
def test_keeps_the_features_asked_for(slurmctld: Slurmctld, features: str, becomes: str) -> None:
    job = {"tres_per_node": "gres:gpu:a100:2", "features": features}
    assert changes(slurmctld, job)["features"] == becomes


@pytest.mark.parametrize(
    ("job", "is_held"),
    [
        ({"account": "vision", "qos": "high"}, True),
        ({"account": "Vision", "default_account": "speech", "qos": "high"}, True),
        ({"default_account": "vision", "default_qos": "high"}, True),
        ({"account": "vision"}, True),  # Slurm may give it any QoS later
        ({"account": "speech", "default_account": "vision", "qos": "high"}, False),
        ({"account": "vision", "qos": "low", "default_qos": "high"}, False),
        ({"qos": "high"}, False),
    ],
)
def test_only_jobs_of_the_opt_in_are_held(runtime: Runtime, job: Job, is_held: bool) -> None:
    runtime.beat(accounts=("vision",), qos=("high", "urgent"))
    slurmctld = Slurmctld(runtime.script())
    assert ("begin_time" in changes(slurmctld, {"tres_per_node": "gres:gpu:1", **job})) is is_held
    assert len(runtime.spool_lines()) == 1  # roostd sees both


@pytest.mark.parametrize("segment_size", [0, NO_VAL_16])
def test_a_job_without_segments_is_held(slurmctld: Slurmctld, segment_size: int) -> None:
    job = {"tres_per_node": "gres/gpu:2", "segment_size": segment_size}
    assert "begin_time" in changes(slurmctld, job)


def test_an_exclusive_job_gets_its_model_but_no_lease(slurmctld: Slurmctld) -> None:
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:a100:2", "shared": 0})
    assert changed == {"tres_per_node": "gres:gpu:2", "features": "a100"}


@pytest.mark.parametrize(
    ("enforce", "excepted", "partition", "held"),
    [
        (("*",), (), None, True),
        (("main",), (), None, True),
        (("debug",), (), None, False),
        (("debug",), (), "debug", True),
        (("main",), (), "main,debug", False),
        (("main", "debug"), (), "main,debug", False),  # Slurm alone may choose between them
        (("*",), (), "main,debug", False),
        (("*",), ("debug",), "debug", False),
        (("*",), ("debug",), "main", True),
        ((), (), "main", False),
    ],
)
def test_holds_only_where_roostd_enforces(
    runtime: Runtime,
    enforce: tuple[str, ...],
    excepted: tuple[str, ...],
    partition: str | None,
    held: bool,
) -> None:
    runtime.beat(enforce=enforce, excepted=excepted)
    job = {"tres_per_node": "gres:gpu:1", "partition": partition}
    assert ("begin_time" in changes(Slurmctld(runtime.script()), job)) is held


@pytest.mark.parametrize(
    "heartbeat_text",
    [
        None,
        "",
        "roost 1 {now} 30",
        "roost 2 {now} 30\nenforce *\n",
        "roost 1 {stale} 30\nenforce *\n",
        "roost 1 {future} 30\nenforce *\n",
        "roost 1 {now} 0\nenforce *\n",
        "roost 1 {now} 86401\nenforce *\n",
        "roost 1 {now} 1e9\nenforce *\n",
        "roost 1 {now} 30\n",
        "\0" * 5000,
    ],
)
def test_without_a_sound_heartbeat_nothing_is_touched(
    runtime: Runtime, heartbeat_text: str | None
) -> None:
    now = int(time.time())
    if heartbeat_text is not None:
        text = heartbeat_text.format(now=now, stale=now - 17, future=now + 60)
        runtime.heartbeat_file.write_text(text)
    assert changes(Slurmctld(runtime.script()), {"tres_per_node": "gres:gpu:1"}) == {}


def test_models_of_the_site_are_known_while_roostd_is_down(runtime: Runtime) -> None:
    slurmctld = Slurmctld(runtime.script(models=("a100",)))
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:a100:1"})
    assert changed == {"tres_per_node": "gres:gpu:1", "features": "a100"}


def test_a_begin_before_the_lease_ends_is_remembered(slurmctld: Slurmctld) -> None:
    begin = int(time.time()) + 5
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:1", "begin_time": begin})
    assert changed["admin_comment"] == f"roost:lease begin={begin}"
    assert changed["begin_time"] > begin


def test_a_later_begin_is_kept(slurmctld: Slurmctld) -> None:
    begin = int(time.time()) + 3600
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:1", "begin_time": begin})
    assert changed == {"admin_comment": f"roost:lease begin={begin}"}


@pytest.mark.parametrize("begin", [NO_VAL + 1, 253402300799, 8_640_000_000_000])
def test_a_begin_beyond_32_bits_is_kept(slurmctld: Slurmctld, begin: int) -> None:
    """`--begin=9999-12-31T23:59:59` parks a job; 22.05 takes `now+100000000days` too."""
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:1", "begin_time": begin})
    assert changed == {"admin_comment": f"roost:lease begin={begin}"}


def test_a_begin_that_is_not_given_counts_as_none(slurmctld: Slurmctld) -> None:
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:1", "begin_time": NO_VAL})
    assert changed["admin_comment"] == "roost:lease"


def test_a_begin_in_the_past_counts_as_none(slurmctld: Slurmctld) -> None:
    changed = changes(slurmctld, {"tres_per_node": "gres:gpu:1", "begin_time": 1000})
    assert changed["admin_comment"] == "roost:lease"


def test_wakes_roostd_through_the_spool(runtime: Runtime, slurmctld: Slurmctld) -> None:
    slurmctld.submit({"tres_per_node": "gres:gpu:1"}, uid=1234)
    slurmctld.submit({"tres_per_node": "gres:gpu:1", "partition": "main,debug"}, uid=0)
    slurmctld.submit({})
    assert runtime.spool_lines() == ["submit 1234 main", "submit 0 main,debug"]


@pytest.mark.parametrize(("user_id", "uid"), [(1000, 0), (0, 0), (1000, 64030)])
def test_a_question_of_roostd_is_no_job(
    runtime: Runtime, slurmctld: Slurmctld, user_id: int, uid: int
) -> None:
    asked = {"comment": "roost:shadow", "user_id": user_id, "tres_per_node": "gres:gpu:a100:2"}
    told = slurmctld.submit(asked, uid)
    assert (told["begin_time"], told.get("admin_comment")) == (0, None)
    assert (told["tres_per_node"], told["features"]) == ("gres:gpu:2", "a100")
    assert not runtime.spool_file.exists()


@pytest.mark.parametrize("comment", ["roost:shadow", "roost:shadow job", "roost:model=bert"])
def test_no_user_can_pass_a_job_off_as_a_question(slurmctld: Slurmctld, comment: str) -> None:
    job = {"comment": comment, "user_id": 1000, "tres_per_node": "gres:gpu:2"}
    assert slurmctld.submit(job, 1000)["admin_comment"] == "roost:lease"
    if comment != "roost:shadow":
        assert slurmctld.submit(job, 0)["admin_comment"] == "roost:lease"


@given(partition=st.text(min_size=1, max_size=300))
def test_a_partition_name_cannot_forge_a_line(
    tmp_path_factory: pytest.TempPathFactory, partition: str
) -> None:
    runtime = Runtime(tmp_path_factory.mktemp("run"))
    runtime.beat()
    Slurmctld(runtime.script()).submit({"tres_per_node": "gres:gpu:1", "partition": partition})
    (line,) = runtime.spool_lines()
    assert isinstance(spool.parse_line(line), spool.Submitted)


def test_an_unwritable_spool_does_no_harm(runtime: Runtime, slurmctld: Slurmctld) -> None:
    runtime.spool_file.parent.rmdir()
    assert "begin_time" in changes(slurmctld, {"tres_per_node": "gres:gpu:1"})
    assert slurmctld.errors == []


def test_a_fault_leaves_the_job_as_it_was(slurmctld: Slurmctld) -> None:
    assert changes(slurmctld, {"tres_per_node": "gres:gpu:a100:1", "partition": True}) == {}
    assert slurmctld.errors
    assert slurmctld.errors[0].startswith("roost: job left to Slurm: ")


@given(
    st.dictionaries(
        st.sampled_from([*FORMS, "partition", "features", "shared", "begin_time"]),
        st.one_of(st.text("gresu:/=,a1025 ", max_size=30), st.integers(0, 2**32 - 1)),
    )
)
def test_no_job_is_ever_refused(tmp_path_factory: pytest.TempPathFactory, job: Job) -> None:
    runtime = Runtime(tmp_path_factory.mktemp("run"))
    runtime.beat(models=("a100",))
    Slurmctld(runtime.script()).submit(job)  # asserts SUCCESS


@pytest.mark.parametrize(
    ("update", "comment", "lines"),
    [
        ({"priority": NO_VAL}, "roost:lease", ["change"]),  # scontrol release
        ({"array_max": 4, "begin_time": 0}, "roost:lease owner=1f was=x:y", ["change"]),
        ({"begin_time": 5}, "roost:lease", []),  # of roostd: a renewal, a pin
        ({"admin_comment": "roost:lease roost:advice waits"}, "roost:lease", []),
        ({"priority": 0}, "roost:let-go", []),
        ({"priority": 0}, None, []),
    ],
)
def test_a_change_of_a_leased_job_wakes_roostd(
    runtime: Runtime, slurmctld: Slurmctld, update: Job, comment: str | None, lines: list[str]
) -> None:
    record = {} if comment is None else {"admin_comment": comment}
    slurmctld.modify(update, record)
    assert (runtime.spool_lines() if runtime.spool_file.exists() else []) == lines
    assert slurmctld.errors == []


def test_a_change_wakes_no_roostd_that_is_away(runtime: Runtime, slurmctld: Slurmctld) -> None:
    runtime.heartbeat_file.unlink()
    slurmctld.modify({"priority": 0}, {"admin_comment": "roost:lease"})
    assert not runtime.spool_file.exists()


def test_modifying_a_job_passes(slurmctld: Slurmctld) -> None:
    assert slurmctld.modify({"begin_time": 5}, {}) == {"begin_time": 5}
    assert slurmctld.modify({"tres_per_node": True}, {}) == {"tres_per_node": True}
    assert slurmctld.errors


@pytest.fixture
def counting(runtime: Runtime) -> Slurmctld:
    """A cluster with two models whose GPUs are counted by model, while roostd is down."""
    return Slurmctld(runtime.script(models=("a100", "h100"), counts_models=True))


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ("gres:gpu:h100:2", "gres:gpu:2,gres:h100:2"),
        ("gres/gpu:h100=2", "gres/gpu=2,gres/h100=2"),
        ("gres/gpu:h100", "gres/gpu,gres/h100:1"),
        ("gpu:h100:2", "gpu:2,h100:2"),
        ("gres:nic:1,gres:gpu:h100:2", "gres:nic:1,gres:gpu:2,gres:h100:2"),
        ("gres:gpu:h100:8,gres:h100:1", "gres:gpu:8,gres:h100:8"),  # no way around the count
        ("gres:gpu:h100:8,gres:a100:1", "gres:gpu:8,gres:h100:8"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_counted_by_model_each_gpu_takes_a_token(
    counting: Slurmctld, form: str, asked: str, becomes: str
) -> None:
    assert changes(counting, {form: asked}) == {form: becomes, "features": "h100"}


@pytest.mark.parametrize("features", ["h100", "big&h100", "h100,big"])
def test_a_constraint_says_the_model_too(counting: Slurmctld, features: str) -> None:
    changed = changes(counting, {"tres_per_job": "gres:gpu:2", "features": features})
    assert changed == {"tres_per_job": "gres:gpu:2,gres:h100:2"}


@pytest.mark.parametrize("features", ["", "big", "a100|h100", "[a100*1&h100*1]"])
def test_without_a_model_a_mixed_cluster_counts_nothing(counting: Slurmctld, features: str) -> None:
    assert changes(counting, {"tres_per_job": "gres:gpu:2", "features": features}) == {}


def test_on_a_cluster_of_one_model_every_request_is_counted(runtime: Runtime) -> None:
    script = runtime.script(models=("h100",), only_model="h100", counts_models=True)
    counting = Slurmctld(script)
    for asked, becomes in (
        ("gres:gpu:2", "gres:gpu:2,gres:h100:2"),
        ("gres:gpu:g1:1,gres:gpu:g3:1", "gres:gpu:g1:1,gres:gpu:g3:1,gres:h100:2"),
        ("gres:gpu:s3:1", "gres:gpu:s3:1,gres:h100:1"),
    ):
        assert changes(counting, {"tres_per_node": asked}) == {"tres_per_node": becomes}
    assert changes(counting, {"tres_per_node": "gres:nic:2"}) == {}
    assert runtime.spool_lines() == []


def test_a_request_in_two_ways_is_counted_in_both(counting: Slurmctld) -> None:
    changed = changes(counting, {"tres_per_job": "gres:gpu:4", "tres_per_task": "gres:gpu:h100:2"})
    assert changed["tres_per_job"] == "gres:gpu:4,gres:h100:4"
    assert changed["tres_per_task"] == "gres:gpu:2,gres:h100:2"


@pytest.mark.parametrize(
    ("update", "becomes"),
    [
        ({"tres_per_node": "gres:gpu:4"}, {"tres_per_node": "gres:gpu:4,gres:h100:4"}),
        (
            {"tres_per_node": "gres:gpu:a100:4"},
            {"tres_per_node": "gres:gpu:4,gres:a100:4", "features": "h100&a100"},
        ),
        # A pin, as roostd writes it.
        (
            {
                "tres_per_node": "",
                "tres_per_job": "gres:gpu:g0:2,gres:gpu:g1:2,gres:h100:4",
                "tres_per_task": "",
            },
            {
                "tres_per_node": "",
                "tres_per_job": "gres:gpu:g0:2,gres:gpu:g1:2,gres:h100:4",
                "tres_per_task": "",
            },
        ),
    ],
)
def test_an_update_of_a_job_keeps_the_count(counting: Slurmctld, update: Job, becomes: Job) -> None:
    assert counting.modify(update, {"features": "h100"}) == becomes


def test_a_pin_keeps_tokens_whose_model_is_not_known(counting: Slurmctld) -> None:
    pin = {"tres_per_job": "gres:gpu:g0:1,gres:h100:1"}
    assert counting.modify(pin, {"features": "x|y&h100"}) == pin


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ("gres:gpu:2", "gres:gpu:2,gres:gputoken:2"),
        ("gres/gpu=2", "gres/gpu=2,gres/gputoken=2"),
        ("gres:gpu:a100:3", "gres:gpu:3,gres:gputoken:3"),
        ("gres:gpu", "gres:gpu,gres:gputoken:1"),
    ],
)
def test_with_second_seats_a_plain_request_takes_tokens(
    runtime: Runtime, asked: str, becomes: str
) -> None:
    slurmctld = Slurmctld(runtime.script(models=("a100",), seats=True))
    assert changes(slurmctld, {"tres_per_node": asked})["tres_per_node"] == becomes


@pytest.mark.parametrize(
    ("comment", "is_bare"),
    [
        ("roost:share=yes", True),
        ("x roost:memory=1G,share=yes", True),
        ("roost:share=no", False),
        ("share=yes", False),
    ],
)
def test_a_leased_job_that_opted_in_takes_no_tokens(
    runtime: Runtime, comment: str, *, is_bare: bool
) -> None:
    slurmctld = Slurmctld(runtime.script(seats=True))
    job = {"tres_per_node": "gres:gpu:2", "comment": comment}
    runtime.beat()
    held = changes(slurmctld, job)
    assert ("gputoken" not in held.get("tres_per_node", "")) is is_bare
    runtime.heartbeat_file.unlink()
    assert "gputoken" in changes(slurmctld, job)["tres_per_node"]


@pytest.mark.parametrize(
    ("job", "is_bare"),
    [
        ({"qos": "together"}, True),
        ({"qos": "TOGETHER"}, True),
        ({"default_qos": "together"}, True),
        ({"qos": "normal", "default_qos": "together"}, False),
        ({}, False),
        ({"qos": "together", "comment": "roost:share=no"}, False),
        ({"qos": "together", "comment": "roost:model=bert,share=maybe"}, False),
        ({"qos": "together", "comment": "roost:memory=1G"}, True),
        ({"qos": "normal", "comment": "roost:share=yes"}, True),
        ({"comment": "roost:share=yes roost:share=no"}, False),  # the last word counts
        ({"comment": "roost:share=yes roost:model=bert"}, False),
        ({"comment": "roost:share=no,share=yes"}, True),
        ({"comment": "roost:noshare=yes"}, False),
    ],
)
def test_the_comment_or_else_the_qos_says_which_job_takes_no_tokens(
    runtime: Runtime, job: dict[str, str], *, is_bare: bool
) -> None:
    slurmctld = Slurmctld(runtime.script(seats=True))
    runtime.beat(share_qos=("together",))
    held = changes(slurmctld, {"tres_per_node": "gres:gpu:2"} | job)
    assert ("gputoken" not in held.get("tres_per_node", "")) is is_bare


def test_where_slurm_takes_tokens_back_a_job_that_opted_in_has_them_too(runtime: Runtime) -> None:
    slurmctld = Slurmctld(runtime.script(seats=True))
    runtime.beat()
    job = {"tres_per_node": "gres/gpu:2", "comment": "roost:share=yes"}
    assert changes(slurmctld, job)["tres_per_node"] == "gres/gpu:2,gres/gputoken:2"


def test_a_directory_as_heartbeat_is_none(runtime: Runtime) -> None:
    os.mkdir(runtime.heartbeat_file)
    assert changes(Slurmctld(runtime.script()), {"tres_per_node": "gres:gpu:1"}) == {}


PAIR = {"tres_per_node": "gres:gpu:2"}


@pytest.mark.parametrize("form", ["tres_per_node", "tres_per_task", "tres_per_socket"])
@pytest.mark.parametrize(
    "request_text", ["gres:gpu:2", "gres/gpu:8", "gres/gpu=2", "gres:gpu:a100:2"]
)
def test_until_nodes_have_registered_clients_are_to_ask_again(
    runtime: Runtime, form: str, request_text: str
) -> None:
    """Slurm would refuse such a job for good; sbatch, srun and salloc repeat it on EAGAIN."""
    runtime.beat(registered_epoch_s=int(time.time()) - 5)
    slurmctld = Slurmctld(runtime.script(models=("a100",)))
    answer, job = slurmctld.answer({form: request_text})
    assert answer == errno.EAGAIN
    assert "admin_comment" not in job
    assert runtime.spool_lines() == []
    runtime.beat(registered_epoch_s=int(time.time()) + 1)
    assert slurmctld.submit({form: request_text})["admin_comment"] == "roost:lease"


@pytest.mark.parametrize(
    "job",
    [
        {"tres_per_node": "gres:gpu:1"},
        {"tres_per_node": "gres:gpu"},
        {"tres_per_job": "gres:gpu:8"},
        {"tres_per_node": "gres:gpu:g0:1,gres:gpu:g3:1"},
        {"tres_per_node": "gres:nic:2"},
        {},
    ],
)
def test_until_nodes_have_registered_slurm_takes_other_jobs(runtime: Runtime, job: Job) -> None:
    runtime.beat(registered_epoch_s=0)
    assert Slurmctld(runtime.script()).answer(job)[0] == 0


def test_an_earlier_roostd_and_a_dead_one_put_no_client_off_for_long(runtime: Runtime) -> None:
    runtime.beat()
    assert Slurmctld(runtime.script()).answer(PAIR)[0] == 0
    runtime.beat(registered_epoch_s=0, age_s=60)
    script = runtime.script()
    assert Slurmctld(script).answer(PAIR)[0] == errno.EAGAIN
    started = "STARTED = 15, 60, 11, os.time()"
    for age_s, alive, dead in ((10, errno.EAGAIN, errno.EAGAIN), (20, errno.EAGAIN, 0), (61, 0, 0)):
        assert started in script
        slurmctld = Slurmctld(script.replace(started, f"{started} - {age_s}"))
        runtime.beat(registered_epoch_s=1, age_s=60)
        assert slurmctld.answer(PAIR)[0] == dead
        runtime.beat(registered_epoch_s=1)
        assert slurmctld.answer(PAIR)[0] == alive


def test_roostd_says_that_a_backup_controller_has_taken_over(runtime: Runtime) -> None:
    long_ago = runtime.script().replace("os.time()  -- see is_reg", "0  -- see is_reg")
    slurmctld = Slurmctld(long_ago)
    for registered_epoch_s, answer in ((1, 0), (0, errno.EAGAIN), (int(time.time()), 0)):
        runtime.beat(registered_epoch_s=registered_epoch_s)
        assert slurmctld.answer(PAIR)[0] == answer


def test_a_clock_that_was_set_back_puts_no_client_off(runtime: Runtime) -> None:
    runtime.beat(registered_epoch_s=1)
    script = runtime.script().replace("os.time()  -- see is_reg", "os.time() + 3600  -- see is_reg")
    assert Slurmctld(script).answer(PAIR)[0] == 0
