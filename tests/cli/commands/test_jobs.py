"""`roostctl jobs`: what each column shows."""

from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.jobs import links, place, position, reason, run_time, state, user, where
from roostctl.testing import FakeOperator, build_job


def test_nodes_with_equal_gpus_share_one_entry() -> None:
    shares = [
        pb.NodeAllocation(node="a", gpu_indices=[3, 2, 1, 0]),
        pb.NodeAllocation(node="c", gpu_indices=[4, 6]),
        pb.NodeAllocation(node="b", gpu_indices=[0, 1, 2, 3]),
    ]
    assert place(shares) == "a,b:0-3 c:4,6"
    assert place([]) == "-"


def test_link_score_of_zero_differs_from_an_unknown_one() -> None:
    assert links(build_job("1", link_scores=(0, 400))) == "0/400"
    assert links(pb.Job(link_score=10)) == "10/-"
    assert links(build_job("1")) == "-"


def test_users_are_shown_by_login_name_where_there_is_one() -> None:
    assert user(build_job("1", user_id=0)) == "root"
    assert user(build_job("1", user_id=4_294_967_294)) in ("nobody", "4294967294")
    assert user(build_job("1", user_id=None)) == "-"


def test_the_reason_states_the_longest_wait() -> None:
    assert reason(build_job("1", reason="no GPUs", wait_left_s=0.0)) == (
        "no GPUs (at most 0.0 s more)"
    )
    assert reason(build_job("1")) == "-"


def test_a_waiting_job_has_a_position_and_a_run_time() -> None:
    job = build_job(
        "1",
        pb.JOB_STATE_WAITING,
        turn=pb.Turn(position=2, of_count=14),
        expected_run=pb.ExpectedTime(low_s=60.0, median_s=540.0, high_s=900.0),
    )
    assert (position(job), run_time(job)) == ("2/14", "9 min")
    assert (position(build_job("1")), run_time(build_job("1"))) == ("-", "-")


def test_states_are_words() -> None:
    assert state(build_job("1", pb.JOB_STATE_LET_GO)).plain == "left to Slurm"
    assert state(build_job("1", pb.JOB_STATE_UNSPECIFIED)).plain == "-"


def test_ended_jobs_are_listed_with_all_only(cluster: FakeOperator, run: Run) -> None:
    assert run("jobs").stdout.splitlines()[-1].startswith("4 jobs: ")
    assert run("jobs", "--all").stdout.splitlines()[-1] == (
        "5 jobs: 1 running, 1 waiting, 1 left to Slurm, 1 placing, 1 ended."
    )


def test_the_place_of_a_job_that_waits_in_slurm_is_busy() -> None:
    shares = [pb.NodeAllocation(node="n1", gpu_indices=[0, 1])]
    pin = pb.StandingPin(shares=shares)
    waits = build_job("1", pb.JOB_STATE_WAITING, standing=pin)
    assert where(waits) == "n1:0-1 (busy)"
    waits.standing.slurm_chooses_gpus = True
    assert where(waits) == "n1:0-1 (busy, likely)"


def test_a_place_of_which_slurm_chooses_the_gpus_is_likely_until_the_job_runs() -> None:
    job = build_job("1", pb.JOB_STATE_PLACING, shares={"n1": [0, 1]})
    assert where(job) == "n1:0-1"
    job.slurm_chooses_gpus = True
    assert where(job) == "n1:0-1 (likely)"
    job.allocated.add(node="n1", gpu_indices=[2, 3])
    assert where(job) == "n1:2-3"
