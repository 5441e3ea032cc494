"""`roostctl explain ID`."""

import pytest
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.testing import FakeOperator, build_candidate, build_job


@pytest.mark.parametrize("args", [["job", "9"], ["explain", "9"]], ids=" ".join)
def test_unknown_job_exits_1(args: list[str], cluster: FakeOperator, run: Run) -> None:
    result = run(*args, "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "roostctl: no job '9'\n"


def explained(run: Run, operator: FakeOperator, job: pb.Job, found: pb.Explanation) -> str:
    operator.add_job(job, found)
    return run("explain", job.job_id).stdout


TURN = pb.Turn(position=1, of_count=3, slurm_position=1, order="priority")


def test_a_waiting_job_states_when_it_will_be_decided_and_how_to_end_the_wait(
    operator: FakeOperator, run: Run
) -> None:
    job = build_job("1", pb.JOB_STATE_WAITING, reason="no free GPUs.", wait_left_s=245.0)
    text = explained(run, operator, job, pb.Explanation(turn=TURN))
    assert "Why: no free GPUs. It will be decided in 4 m 05 s at the latest;" in text
    assert "to leave it to Slurm now: scontrol update jobid=1 StartTime=now\n" in text
    job.ClearField("wait_left_s")
    text = explained(run, operator, job, pb.Explanation(turn=TURN))
    assert "It is tried again whenever GPUs become free; no deadline is set." in text


def test_a_job_that_is_not_in_the_queue_is_not_said_to_be_decided(
    operator: FakeOperator, run: Run
) -> None:
    job = build_job("1", pb.JOB_STATE_WAITING, reason="has a later begin time", wait_left_s=245.0)
    text = explained(run, operator, job, pb.Explanation())
    assert "Why: has a later begin time. It is not considered for another 4 m 05 s.\n" in text
    held = build_job("2", pb.JOB_STATE_WAITING, reason="is held")
    text = explained(run, operator, held, pb.Explanation())
    assert "Why: is held. Roost places it once that has changed.\n" in text


def test_a_waiting_job_states_when_it_is_expected_to_start(
    operator: FakeOperator, run: Run
) -> None:
    start = pb.ExpectedTime(low_s=240.0, median_s=720.0, high_s=2_100.0)
    forecast = pb.GetEtaResponse(interval_frac=0.8, etas=[pb.Eta(job_id="1", start=start)])
    job = build_job("1", pb.JOB_STATE_WAITING, reason="no free GPUs")
    expected = "It is expected to start in about 12 min (80%: 4 to 35 min).\n"

    assert expected not in explained(run, operator, job, pb.Explanation(turn=TURN))
    operator.etas.CopyFrom(forecast)
    assert expected in explained(run, operator, job, pb.Explanation(turn=TURN))
    operator.etas.fault = "no answer in 30 s"
    assert "expected to start" not in explained(run, operator, job, pb.Explanation(turn=TURN))


def test_an_order_that_is_slurm_s_own_is_named_once(operator: FakeOperator, run: Run) -> None:
    job = build_job("1", pb.JOB_STATE_WAITING, reason="no free GPUs")
    text = explained(run, operator, job, pb.Explanation(turn=TURN))
    assert "It is number 1 of 3 waiting jobs, by Slurm's priority.\n" in text


def test_a_job_that_is_left_to_slurm_says_where_to_ask(operator: FakeOperator, run: Run) -> None:
    job = build_job("8", pb.JOB_STATE_LET_GO, reason="asks for whole nodes")
    text = explained(run, operator, job, pb.Explanation())
    assert (
        "left to plain Slurm: asks for whole nodes. When it starts: squeue --start -j 8\n" in text
    )


def test_exclusions_come_by_the_number_of_nodes(operator: FakeOperator, run: Run) -> None:
    exclusions = [
        pb.Exclusion(reason="not in partition main", node_count=1),
        pb.Exclusion(reason="drained", node_count=12),
    ]
    text = explained(run, operator, build_job("1"), pb.Explanation(exclusions=exclusions))
    assert text.index("12 nodes  drained") < text.index("1 node    not in partition main")


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ((20, 400), "20 of the 400 points possible (5%)"),
        ((0, 0), "one GPU a node: no links to score"),
    ],
)
def test_links_are_compared_with_the_best_possible(
    scores: tuple[int, int], text: str, operator: FakeOperator, run: Run
) -> None:
    found = pb.Explanation(policy="heuristic", candidates=[build_candidate(["n1"], [0], 1.0, 0)])
    job = build_job("1", shares={"n1": [0]}, link_scores=scores)
    assert text in explained(run, operator, job, found)


def test_features_are_shown_on_request_for_five_candidates(
    operator: FakeOperator, run: Run
) -> None:
    candidates = [build_candidate(["n1"], [index], 1.0, 0, "worse") for index in range(7)]
    del candidates[1].features["tier_frac"]
    operator.add_job(build_job("1"), pb.Explanation(candidates=candidates))
    assert "What the policy saw" not in run("explain", "1").stdout
    heads, *rows = run("explain", "1", "--features").stdout.splitlines()[-3:]
    assert heads.split() == ["INPUT", "#1", "#2", "#3", "#4", "#5"]
    assert [row.split()[2] for row in rows] == ["0.000", "-"]  # link_frac, tier_frac


def build_pin(**fields: object) -> pb.StandingPin:
    shares = [pb.NodeAllocation(node="n1", gpu_indices=[4, 5])]
    return pb.StandingPin(shares=shares, age_s=75.0, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pin", "text"),
    [
        (
            build_pin(start_left_s=600.0),
            "It waits in Slurm since 1 m 15 s, on n1:4-5. By the time limits of the jobs there it"
            " starts in 10 m 00 s at the latest.",
        ),
        (build_pin(), "on n1:4-5. A job there has no time limit: the start is not known."),
        (build_pin(is_preempting=True), "on n1:4-5. Slurm is to stop the jobs there."),
        (
            build_pin(slurm_chooses_gpus=True, start_left_s=0.0),
            "on n1: Slurm chooses the GPUs, likely n1:4-5. By",
        ),
    ],
)
def test_a_job_with_a_standing_pin_says_where_it_waits_and_until_when(
    operator: FakeOperator, run: Run, pin: pb.StandingPin, text: str
) -> None:
    job = build_job("1", pb.JOB_STATE_WAITING, reason="is next.", wait_left_s=600.0, standing=pin)
    told = " ".join(explained(run, operator, job, pb.Explanation()).split())
    assert text in told
    assert "Why: it is next." in told
    assert "It will be decided" not in told


def test_gpus_that_slurm_chooses_are_called_likely(operator: FakeOperator, run: Run) -> None:
    job = build_job("1", shares={"n1": [0], "n2": [3]})
    job.slurm_chooses_gpus = True
    found = pb.Explanation(policy="heuristic", candidates=[build_candidate(["n1"], [0], 1.0, 0)])
    text = explained(run, operator, job, found)
    assert "Chosen     n1:0 n2:3 (likely)" in text
    assert "GPUs       Slurm chooses them on these nodes" in text


def test_a_job_that_may_get_several_numbers_of_nodes_says_so(
    operator: FakeOperator, run: Run
) -> None:
    job = build_job("1", pb.JOB_STATE_WAITING)
    found = pb.Explanation(turn=TURN, least_node_count=1, most_node_count=3)
    gpus = f"asked for {job.gpu_count} GPU{'s' if job.gpu_count > 1 else ''}"
    assert f"{gpus} on 1 to 3 nodes." in explained(run, operator, job, found)
    assert f"{gpus}." in explained(run, operator, job, pb.Explanation(turn=TURN))
