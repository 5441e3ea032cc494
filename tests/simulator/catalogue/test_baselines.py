"""Published orders and preemption rules: known answers on hand-worked examples."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

import pytest
from tests.simulator.simulated import arrival, cluster, times

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord
from roost_engine.policies import QueueView
from roost_engine.testing.builders import waiting
from roost_sim.catalogue.compositions import POLICIES, find_policy
from roost_sim.figures.outcome import JobResult
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.information.progress import PastRun, ProgressTable
from roost_sim.policies.order.gittins import GittinsIndex, gittins_index
from roost_sim.policies.order.job_values import Remaining, latest_start
from roost_sim.policies.order.service_levels import TIRESIAS_LIMITS_GPU_S, ServiceLevels
from roost_sim.policies.order.speed_curve import (
    PERFECT_SCALING,
    MarginalGain,
    SpeedCurve,
    fit_curve,
)
from roost_sim.policies.order.themis import WorstOffFirst
from roost_sim.policies.preemption.preemption_rules import next_round_s
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.traces.shapes import ShapeRule, tightest_shapes
from roost_sim.worlds.world import FullSpeed

NOTHING = PolicyInformation(work_s={}, seed=0)
Job = tuple[str, float, float, int]  # id, submission, work, GPUs


def run(
    name: str,
    *jobs: Job,
    nodes: int = 1,
    restart_s: float = 0.0,
    users: Mapping[str, int] | None = None,
    predicted: Mapping[str, float] | None = None,
) -> Sequence[JobResult]:
    """Let some jobs run on nodes of 8 GPUs."""
    policy = find_policy(name)
    arrivals = [_arrival(job, (users or {}).get(job[0]), policy.shapes) for job in jobs]
    work_s = {JobId(job_id): work for job_id, _, work, _ in jobs}
    told = {JobId(job_id): length for job_id, length in (predicted or {}).items()}
    information = PolicyInformation(
        work_s=work_s,
        seed=0,
        predict=lambda: told or work_s,
        restart_s=lambda job_id, gpu_count: restart_s,
        cluster_gpu_count=8 * nodes,
    )
    driver = Driver(
        Engine(policy.engine_config(EngineConfig(patience_s=inf)), policy.build(information)),
        FullSpeed(),
        restart_s=lambda job_id, gpu_count: restart_s,
        reports_speed=policy.asks_speed,
        progress=information.progress,
    )
    outcome = driver.run(cluster(nodes), arrivals)
    driver.engine.check_invariants()
    return outcome.jobs


def _arrival(job: Job, user_id: int | None = None, shapes: ShapeRule = tightest_shapes) -> Arrival:
    made = arrival(*job, *shapes(job[3], 8))
    user = -1 if user_id is None else user_id
    return replace(made, spec=replace(made.spec, user_id=user))


def ends(results: Sequence[JobResult]) -> dict[str, float | None]:
    return {result.job_id: result.ended_s for result in results}


def starts(results: Sequence[JobResult]) -> dict[str, float | None]:
    return {result.job_id: result.started_s for result in results}


# -- shortest remaining ------------------------------------------------------------------------


def test_srtf_stops_the_longer_job_and_pays_for_its_restart() -> None:
    # At 10, 1 has 90 s left and 2 has 20 s: 2 runs 10-30. 1 loads its checkpoint 30-35, and runs
    # its 90 s until 125. 3 (100 s) does not displace 1, which has 125 - 40 = 85 s left at 40.
    jobs = run("srtf", ("1", 0, 100, 8), ("2", 10, 20, 8), ("3", 40, 100, 8), restart_s=5.0)
    assert ends(jobs) == {"1": 125.0, "2": 30.0, "3": 225.0}
    assert [job.preempted_count for job in jobs] == [1, 0, 0]


def test_srtf_stops_nobody_if_that_does_not_pay() -> None:
    # At 10, 1 has 90 s left, and a restart takes 50. 2 of 41 s would cost it 91 s: it waits. One
    # of 39 s costs 89 s: it runs 10-49, then 1 stands until 99 and runs its 90 s.
    waits = run("srtf", ("1", 0, 100, 8), ("2", 10, 41, 8), restart_s=50.0)
    assert ends(waits) == {"1": 100.0, "2": 141.0}
    pays = run("srtf", ("1", 0, 100, 8), ("2", 10, 39, 8), restart_s=50.0)
    assert ends(pays) == {"1": 189.0, "2": 49.0}


def test_srtf_stops_not_many_for_one() -> None:
    # At 10, 1 to 8 of one GPU have 90 s left each. 9 takes 12 s of all GPUs: eight would wait 96 s
    # in all, 9 waits 90 s for them. With 11 s they wait 88: they stop, and end at 10 + 11 + 90.
    small: tuple[Job, ...] = tuple((str(n), 0, 100, 1) for n in range(1, 9))
    assert ends(run("srtf", *small, ("9", 10, 12, 8)))["9"] == 112.0
    assert ends(run("srtf", *small, ("9", 10, 11, 8)))["8"] == 111.0
    assert ends(run("srtf+consolidation+open+srtf", *small, ("9", 10, 12, 8)))["9"] == 22.0


def test_srtf_counts_the_restart_of_every_victim() -> None:
    # At 10, 1 and 2 have 90 s left, a restart takes 20. 3 of 30 s would cost 2 x 50 s: it waits. Of
    # 24 s it costs 2 x 44: it runs 10-34, the others stand until 54 and end at 144.
    large = (("1", 0, 100, 4), ("2", 0, 100, 4))
    assert ends(run("srtf", *large, ("3", 10, 30, 8), restart_s=20.0))["3"] == 130.0
    pays = run("srtf", *large, ("3", 10, 24, 8), restart_s=20.0)
    assert ends(pays) == {"1": 144.0, "2": 144.0, "3": 34.0}


@pytest.mark.parametrize(
    ("name", "ended_s"),
    [
        *((name, 931.0) for name in ("srtf", "srsf", "las", "tiresias", "gittins-2d")),
        ("las+consolidation+open+las", 901.0),
    ],
)
def test_who_may_be_stopped_moves_to_one_node_when_it_fits_there(name: str, ended_s: float) -> None:
    # 1 and 2 leave two GPUs of each node: 3 has them from 1 on. 1 ends at 500, and 3 moves there
    # with 499 s of its 900 done: 30 s of restart and 401 s of work, until 931.
    jobs = run(
        *(name, ("1", 0, 500, 6), ("2", 0, 2000, 6), ("3", 1, 900, 4)), nodes=2, restart_s=30.0
    )
    assert ends(jobs) == {"1": 500.0, "2": 2000.0, "3": ended_s}


def test_srsf_counts_gpus_too() -> None:
    # At 10: 1 has 90 s x 2 = 180 GPU-s left. 2 has 30 s x 8 = 240: it waits though it is shorter.
    assert ends(run("srsf", ("1", 0, 100, 2), ("2", 10, 30, 8))) == {"1": 100.0, "2": 130.0}
    assert ends(run("srtf", ("1", 0, 100, 2), ("2", 10, 30, 8))) == {"1": 130.0, "2": 40.0}


# -- least attained service --------------------------------------------------------------------


def test_las_lets_the_newcomer_run_after_a_round() -> None:
    # Rounds of 360 s. 1 runs from 0. 2 comes at 100 and may displace 1 from 360 on; it runs its
    # 300 s until 660. Then 1 runs on.
    jobs = run("las", ("1", 0, 1000, 8), ("2", 100, 300, 8))
    assert ends(jobs) == {"1": 1300.0, "2": 660.0}


def test_las_takes_turns() -> None:
    # Both want 8 GPUs for 1000 s. 1 runs 0-360; 2 360-1080, for at 720 both have had as much and
    # nobody has had less; then 1 again until 2 has had less, and so on, two rounds each.
    jobs = run("las", ("1", 0, 1000, 8), ("2", 0, 1000, 8))
    assert ends(jobs) == {"1": 1720.0, "2": 2000.0}


def test_tiresias_falls_at_its_first_limit() -> None:
    # 8 GPUs: 3250 GPU-s are had after 406.25 s. 2 comes at 10, in the first queue too but later:
    # it waits until 1 falls, and runs its 100 s. 3 comes at 420 and waits for its turn behind 2.
    jobs = run("tiresias-consolidated", ("1", 0, 1000, 8), ("2", 10, 100, 8), ("3", 420, 50, 8))
    assert starts(jobs) == {"1": 0.0, "2": 406.25, "3": 506.25}
    assert ends(jobs) == {"1": 1150.0, "2": 506.25, "3": 556.25}


def test_tiresias_goes_by_gpu_seconds() -> None:
    levels = ServiceLevels(TIRESIAS_LIMITS_GPU_S)
    record = running("1", gpus=4, started_s=0.0)
    queues = [levels.value(record, at_s)[0] for at_s in (812.0, 812.5, 1800.0, 4500.0, 1e9)]
    assert queues == [0, 1, 2, 3, 3]  # 3250 / 4, 7200 / 4, 18000 / 4
    assert levels.next_change([record], 1000.0) == 1800.0
    assert levels.next_change([record], 5000.0) == inf


def test_lucids_tiresias_has_one_limit_and_rounds() -> None:
    # 18000 GPU-s are had after 2250 s; the next round of 60 s begins at 2280.
    jobs = run("tiresias-lucid", ("1", 0, 3000, 8), ("2", 10, 100, 8))
    assert starts(jobs)["2"] == 2280.0


def test_bloxs_tiresias_does_not_count_gpus() -> None:
    # At 600, when 3 comes, 1 has had 600 s on 2 GPUs = 1200 GPU-s, 2 has had 500 s on 6 = 3000.
    # Blox stops 1, which has had GPUs for longest; least attained service would stop 2.
    jobs: tuple[Job, ...] = (("1", 0, 900, 2), ("2", 100, 900, 6), ("3", 600, 100, 1))
    assert [job.preempted_count for job in run("tiresias-blox", *jobs)] == [1, 0, 0]
    assert [job.preempted_count for job in run("las", *jobs)] == [0, 1, 0]


# -- Gittins -----------------------------------------------------------------------------------


def test_gittins_index_by_hand() -> None:
    services = [100.0, 200.0, 1000.0, 4000.0]
    # a = 0, D = 500: two of four end within; E = (100 + 200 + 500 + 500) / 4 = 325;
    # (2/4) / 325 = 2 / 1300.
    assert gittins_index(services, 0.0, 500.0) == pytest.approx(2 / 1300)
    # a = 200: 1000 and 4000 are longer; none ends within 500.
    assert gittins_index(services, 200.0, 500.0) == 0.0
    # a = 600: one of two ends within; E = (400 + 500) / 2; (1/2) / 450 = 1 / 900.
    assert gittins_index(services, 600.0, 500.0) == pytest.approx(1 / 900)
    assert gittins_index(services, 4000.0, 500.0) == 0.0
    assert gittins_index([], 0.0, 500.0) == 0.0


def test_gittins_learns_from_what_has_ended_and_nothing_else() -> None:
    progress = ProgressTable()
    index = GittinsIndex(progress, quantum_gpu_s=500.0)
    new, old = running("1", gpus=1, started_s=1000.0), running("2", gpus=1, started_s=400.0)
    assert index.value(new, 1000.0)[0] == index.value(old, 1000.0)[0] == 0
    progress.past.extend(
        PastRun(JobId(str(n)), 2, ran_s) for n, ran_s in enumerate((50.0, 100.0, 500.0))
    )
    # Services 100, 200, 1000. New: 2 / (100 + 200 + 500) = 1/400. Old, at 500 of its 600: one of
    # one ends within 500 more: 1 / 500.
    assert index.value(new, 1000.0)[0] == pytest.approx(-1 / 400)
    assert index.value(old, 1000.0)[0] == pytest.approx(-1 / 500)
    assert index.next_change([new, old], 1000.0) == 1400.0


# -- time slices and leases --------------------------------------------------------------------


_CROWDED: tuple[Job, ...] = (("1", 0, 200, 6), ("2", 0, 1000, 6))


def test_gandiva_takes_turns_in_the_order_of_waiting() -> None:
    # Slices of 120 s, three jobs of the whole node: 1 0-120, 2 -240, 3 -360, 1 -480, ...
    jobs = run("gandiva", ("1", 0, 200, 8), ("2", 1, 200, 8), ("3", 2, 200, 8))
    # 1 runs 0-120 and 360-440; 2 120-240 and 440-520; 3 240-360 and 520-600.
    assert ends(jobs) == {"1": 440.0, "2": 520.0, "3": 600.0}


def test_gandiva_stops_no_more_at_the_end_of_a_slice_than_those_who_wait_need() -> None:
    jobs = run("gandiva", ("1", 0, 300, 4), ("2", 0, 300, 4), ("3", 2, 300, 4))
    # 1 runs 0-120, 2 0-240, 3 120-360: each time one goes, who has run longest; it does not
    # displace the other one in turn. 1 runs 240-420 and 2 360-420, then both are done: 3 420-480.
    assert ends(jobs) == {"1": 420.0, "2": 420.0, "3": 480.0}
    assert [job.preempted_count for job in jobs] == [1, 1, 1]


def test_gandiva_stops_nobody_between_the_ends_of_slices() -> None:
    # 2 comes when 1 has run for a slice, and another job's end at 130 has the engine look again.
    jobs = run("gandiva", ("1", 0, 500, 7), ("3", 0, 130, 1), ("2", 125, 10, 7))
    assert starts(jobs)["2"] == 240.0


def test_gandivas_slices_are_ten_restarts_at_least() -> None:
    # A restart of 30 s: 1 may go after 300 s, at the end of the slice at 360. 2 runs its 300 s
    # until 660, 1 stands until 690 and runs its last 140.
    jobs = run("gandiva", ("1", 0, 500, 8), ("2", 1, 300, 8), restart_s=30.0)
    assert ends(jobs) == {"1": 830.0, "2": 660.0}


def test_gandiva_leaves_jobs_alone_while_there_is_room() -> None:
    jobs = run("gandiva", ("1", 0, 500, 4), ("2", 1, 500, 4))
    assert [job.preempted_count for job in jobs] == [0, 0]


def test_gandiva_moves_a_job_to_one_node_as_soon_as_it_fits_there() -> None:
    # 1 and 2 leave two GPUs of each node: 3 has them from 1 on. 1 ends at 200, and 3 moves to its
    # node: 199 s of its 500 are done, the restart takes 12, so it ends at 200 + 12 + 301 = 513.
    jobs = run("gandiva", *_CROWDED, ("3", 1, 500, 4), nodes=2, restart_s=12.0)
    assert ends(jobs) == {"1": 200.0, "2": 1000.0, "3": 513.0}
    assert [job.preempted_count for job in jobs] == [0, 0, 1]
    assert jobs[2].tier == 0


def test_gandiva_moves_nobody_within_his_first_slice() -> None:
    jobs = run("gandiva", *_CROWDED, ("3", 100, 500, 4), nodes=2, restart_s=30.0)
    assert ends(jobs)["3"] == 600.0


def test_dallys_gandiva_serves_the_latest_start_first() -> None:
    stopped, newer = running("1", 8, 0.0), running("2", 8, 500.0)
    for record, at_s in ((stopped, 100.0), (newer, 600.0)):
        record.earlier_run_s, record.started_s, record.queued_s = 100.0, None, at_s
    never = waiting(arrival("3", 50, 10, 8).spec, queued_s=50.0)
    ranked = sorted((never, stopped, newer), key=lambda job: latest_start(job, 700.0))
    assert [job.job_id for job in ranked] == ["2", "1", "3"]


def test_s_rank_serves_whoever_achieved_least_at_the_end_of_a_lease() -> None:
    # Leases of 3600 s. At full speed 1 has S = 1, 2 has never run and S = 0: 2 gets the node.
    jobs = run("s-rank", ("1", 0, 5000, 8), ("2", 100, 1000, 8))
    assert ends(jobs) == {"1": 6000.0, "2": 4600.0}


def test_themis_rho_by_hand() -> None:
    work_s = {JobId("1"): 100.0, JobId("2"): 1000.0, JobId("3"): 50.0}
    order = WorstOffFirst(Remaining(work_s, ProgressTable()))
    jobs = [waiting(arrival(str(n), 0, work_s[JobId(str(n))]).spec) for n in (1, 2)]
    jobs.append(waiting(arrival("3", 150, 50).spec))
    # At 200: (200 + 100) / 100 = 3, (200 + 1000) / 1000 = 1.2, (50 + 50) / 50 = 2.
    assert [order.rho(job, 200.0) for job in jobs] == [3.0, 1.2, 2.0]
    # The worst fifth of three, rounded up, is one job; the others follow as they came.
    view = QueueView(jobs=jobs, cluster=Cluster(), at_s=200.0)
    assert order.rank(view) == ["1", "2", "3"]
    assert WorstOffFirst(order.remaining, 1.0).rank(view) == ["1", "3", "2"]


# -- orders that look at all jobs --------------------------------------------------------------


def test_drf_counts_what_a_user_holds() -> None:
    # User 1 holds 4 GPUs until 100. At 50 4 GPUs are free: 2 (user 1) would bring him to 6 GPUs,
    # 3 (user 2) has 4 with his job and comes first though he came later.
    users = {"1": 1, "9": 3, "2": 1, "3": 2}
    jobs = run(
        *("drf", ("1", 0, 100, 4), ("9", 0, 50, 4), ("2", 10, 10, 2), ("3", 20, 10, 4)),
        users=users,
    )
    assert starts(jobs) == {"1": 0.0, "9": 0.0, "3": 50.0, "2": 60.0}


def test_drf_of_jobs_without_users_serves_the_smallest_first() -> None:
    jobs = run("drf", ("1", 0, 100, 8), ("2", 1, 10, 8), ("3", 2, 10, 5))
    assert starts(jobs) == {"1": 0.0, "3": 100.0, "2": 110.0}


def test_tetris_weighs_alignment_against_work() -> None:
    # Demands 8, 4 and 5, mean 17/3; GPU-seconds 800, 40 and 400, mean 1240/3. Work less alignment:
    # 2: 800/413.3 - 8/5.67 = .52; 3: 40/413.3 - 4/5.67 = -.61; 4: 400/413.3 - 5/5.67 = .09.
    policy = "tetris+consolidation"
    jobs = run(policy, ("1", 0, 100, 8), ("2", 1, 100, 8), ("3", 2, 10, 4), ("4", 3, 80, 5))
    assert starts(jobs) == {"1": 0.0, "3": 100.0, "4": 110.0, "2": 190.0}


def test_tetris_serves_the_larger_of_two_with_as_much_work() -> None:
    # 80 GPU-seconds each: the demands, 4 and 8, decide.
    jobs = run("tetris+consolidation", ("1", 0, 100, 8), ("2", 1, 20, 4), ("3", 2, 10, 8))
    assert starts(jobs) == {"1": 0.0, "3": 100.0, "2": 110.0}


def test_optimus_prefers_whom_the_last_gpu_saves_most() -> None:
    # Perfect scaling: the last GPU saves work * (g/(g-1) - 1) = work / (g - 1) seconds.
    # 2: 70/7 = 10; 3: 60/4 = 15; 4, of one GPU, comes first.
    jobs = run("optimus", ("1", 0, 100, 8), ("2", 1, 70, 8), ("3", 2, 60, 5), ("4", 3, 5, 1))
    assert starts(jobs) == {"1": 0.0, "4": 100.0, "3": 100.0, "2": 160.0}


def test_speed_curve_is_found_again_from_its_own_points() -> None:
    curve = SpeedCurve(1.0, 0.2, 0.01)
    found = fit_curve([(gpus, curve.step_s(gpus)) for gpus in (1, 2, 4, 8, 16)])
    assert (found.a, found.b, found.d) == pytest.approx((1.0, 0.2, 0.01), abs=1e-3)
    falling = fit_curve([(1, 1.0), (2, 0.4), (4, 0.1)])
    assert min(falling.a, falling.b, falling.d) == 0.0


def test_a_job_that_does_not_scale_comes_late_in_optimus() -> None:
    flat = SpeedCurve(0.1, 1.0, 0.0)
    remaining = Remaining({JobId("1"): 100.0, JobId("2"): 100.0}, ProgressTable())
    gain = MarginalGain(remaining, lambda job: flat if job.job_id == "1" else PERFECT_SCALING)
    values = [gain.value(waiting(arrival(name, 0, 100, 4).spec), 0.0) for name in ("1", "2")]
    # 1: 100 / 1.025 * (0.1/3 - 0.1/4) = .81 s; 2: 100 * 4 * (1/3 - 1/4) = 33.3 s.
    assert values[0][0] == pytest.approx(-100 / 1.025 * (0.1 / 12))
    assert values[1][0] == pytest.approx(-100 / 3)


def test_asrpt_serves_as_jobs_end_on_the_virtual_machine() -> None:
    # Virtual lengths, predicted seconds * GPUs / 8: 1: 100; 2: 400; 3: 50; 4: 10. The machine works
    # on 1 until 100. 3 came at 20 and ends there at 70 (1 had 80 left), 4 came at 30: ends at 40,
    # then 3 at 80. At 200, when the cluster is free, 4, 3 and 1 have ended there, 2 has not.
    jobs = run(
        *("asrpt", ("1", 0, 200, 8), ("2", 10, 30, 8), ("3", 20, 30, 8), ("4", 30, 30, 8)),
        predicted={"1": 100, "2": 400, "3": 50, "4": 10},
    )
    assert starts(jobs) == {"1": 0.0, "4": 200.0, "3": 230.0, "2": 260.0}


def test_slurm_backfills_whoever_is_gone_in_time() -> None:
    policy = find_policy("slurm")
    assert (policy.gate, policy.preemption) == ("easy", "none")
    # 1 holds 4 GPUs and promises to be gone at 100; 2 needs 8 and has its reservation then. 3
    # promises 90 s from 5 on and passes; 4 promises 200 s and does not.
    limits = {"1": 100.0, "2": 50.0, "3": 90.0, "4": 200.0}
    specs = [("1", 0, 100, 4), ("2", 1, 50, 8), ("3", 5, 90, 4), ("4", 6, 90, 4)]
    jobs = [_limited(_arrival((name, at, work, g)), limits) for name, at, work, g in specs]
    engine = Engine(policy.engine_config(EngineConfig()), policy.build(NOTHING))
    outcome = Driver(engine, FullSpeed()).run(cluster(1), jobs)
    found = {job_id: begin for job_id, (begin, _) in times(outcome).items()}
    assert found == {"1": 0.0, "2": 100.0, "3": 5.0, "4": 150.0}


# -- all of them -------------------------------------------------------------------------------

SHORT_NAMES = (
    *("fifo", "sjf", "srtf", "las", "srsf", "drf", "tetris", "optimus", "themis", "gandiva"),
    *("tiresias", "slurm", "slurm-switches", "lif", "lwf", "asrpt", "random", "dally", "s-rank"),
    *("first-fit", "load-balance"),
)


def test_every_short_name_exists() -> None:
    assert not set(SHORT_NAMES) - set(POLICIES)


def test_short_names_consolidate_unless_their_definition_says_where_jobs_go() -> None:
    placements = {name: POLICIES[name].placement for name in SHORT_NAMES}
    assert {name: part for name, part in placements.items() if part != "consolidation"} == {
        "dally": "first-found",
        "first-fit": "first-fit",
        "lif": "lif",
        "load-balance": "load-balance",
        "lwf": "lwf-1",
        "random": "random",
        "slurm": "slurm-24.05",
        "slurm-switches": "slurm-switches",
        "tetris": "tetris",
        "tiresias": "skew",
    }


def test_rounds_begin_at_multiples() -> None:
    assert [next_round_s(60.0, at_s) for at_s in (0.0, 59.0, 60.0)] == [60.0, 60.0, 120.0]
    assert next_round_s(inf, 5.0) == inf


def running(job_id: str, gpus: int, started_s: float) -> JobRecord:
    record = waiting(arrival(job_id, started_s, 1.0, gpus).spec)
    record.started_s = started_s
    return record


def _limited(made: Arrival, limits: Mapping[str, float]) -> Arrival:
    return replace(made, spec=replace(made.spec, time_limit_s=limits[made.spec.job_id]))
