"""First fit, random, load balance and alignment: each on an example worked by hand."""

from tests.simulator.placing import drawn, of_gpus, put, rule

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job, shape, share
from roost_sim.information.policy_information import PolicyInformation


def test_first_fit_walks_the_gpus_in_order() -> None:
    cluster = drawn("#.#. ....", ".... ....")
    assert put(rule("first-fit"), cluster, of_gpus(5, 4)) == {"n0": (1, 3), "n1": (0, 1, 2)}


def test_load_balance_always_takes_from_the_freest_node() -> None:
    # Free: 2, 4, 3. One by one: n1 (4), n1 and n2 (3 each, the first first), n0, n1, n2 (2 each).
    cluster = drawn("##.. .... #...")
    assert put(rule("load-balance"), cluster, of_gpus(1, 4)) == {"n1": (0,)}
    assert put(rule("load-balance"), cluster, of_gpus(2, 4)) == {"n1": (0, 1)}
    assert put(rule("load-balance"), cluster, of_gpus(3, 4)) == {"n1": (0, 1), "n2": (1,)}
    assert put(rule("load-balance"), cluster, of_gpus(5, 4)) == {
        "n0": (2,),
        "n1": (0, 1, 2),
        "n2": (1,),
    }
    everything = {"n0": (2, 3), "n1": (0, 1, 2, 3), "n2": (1, 2, 3)}
    assert put(rule("load-balance"), cluster, of_gpus(9, 4)) == everything


def test_tree_load_balance_goes_to_the_freest_rack_first() -> None:
    # Racks have 5 and 6 free, nodes 4, 1 | 3, 3. One by one: rack 1 (6): n2; 5 against 5, the
    # first: n0; rack 1 (5): n3, which has more left than n2; 4 against 4: n0.
    cluster = drawn(".... ###.", "#... #...")
    assert put(rule("load-balance-tree"), cluster, of_gpus(4, 4)) == {
        "n0": (0, 1),
        "n2": (1,),
        "n3": (1,),
    }
    # The freest node alone decides in the other rule: n0, then n0, n2, n3 with three each.
    assert put(rule("load-balance"), cluster, of_gpus(4, 4)) == {
        "n0": (0, 1),
        "n2": (1,),
        "n3": (1,),
    }
    assert put(rule("load-balance"), cluster, of_gpus(1, 4)) == {"n0": (0,)}
    assert put(rule("load-balance-tree"), cluster, of_gpus(1, 4)) == {"n2": (1,)}


def test_dallys_gandiva_takes_the_first_node_that_holds_a_job_else_any_gpus() -> None:
    # Free: 2, 4, 3: the first node with three is n1; five are on no node, so any of the nine.
    cluster = drawn("##.. .... #...")
    assert put(rule("machine-or-random"), cluster, of_gpus(3, 4)) == {"n1": (0, 1, 2)}
    assert put(rule("machine-or-random"), cluster, of_gpus(5, 4)) == put(
        rule("random"), cluster, of_gpus(5, 4)
    )


def test_random_takes_what_seed_and_job_say() -> None:
    cluster = drawn(".... ....", ".... ....")
    drawn_once = put(rule("random"), cluster, of_gpus(4, 4))
    assert drawn_once == put(rule("random"), cluster, of_gpus(4, 4))
    others = [
        put(rule("random", PolicyInformation(work_s={}, seed=seed)), cluster, of_gpus(4, 4))
        for seed in range(20)
    ]
    assert len({str(found) for found in others}) > 15
    by_job = [put(rule("random"), cluster, of_gpus(4, 4, str(number))) for number in range(20)]
    assert len({str(found) for found in by_job}) > 15


def test_random_takes_every_gpu_as_often() -> None:
    cluster = drawn("#... ..#.", "....")
    taken: dict[tuple[str, int], int] = {}
    for number in range(2000):
        found = put(rule("random"), cluster, of_gpus(2, 4, str(number)))
        assert found is not None
        for name, gpus in found.items():
            for gpu in gpus:
                taken[name, gpu] = taken.get((name, gpu), 0) + 1
    # 4000 draws over 10 free GPUs: 400 each; five standard deviations (18) are 90.
    assert len(taken) == 10
    assert all(310 < count < 490 for count in taken.values())


def test_scattered_tetris_takes_the_node_that_points_where_the_job_does() -> None:
    # n0 has 4 of 8 GPUs and 60 of 64 CPUs free, n1 all GPUs and 16 CPUs. A task wants 1 GPU and
    # 12 CPUs: n0 scores 4/8·1/8 + 60/64·12/64 = 0.238, n1 8/8·1/8 + 16/64·12/64 = 0.172.
    # The next task: n0 has 3 GPUs and 48 CPUs left, 0.047 + 0.141 = 0.188: again n0.
    # The one after: n0 has 2 and 36, 0.031 + 0.105 = 0.137: n1.
    cluster = drawn("aaaa.... ........")
    cluster.hold(JobId("b"), [share("n1", cpu_count=48)])
    for gpu_count, expected in (
        (1, {"n0": (4,)}),
        (2, {"n0": (4, 5)}),
        (3, {"n0": (4, 5), "n1": (0,)}),
    ):
        spec = job("new", shape(1, gpu_count, cpus_per_node=12))
        assert put(rule("tetris-scattered"), cluster, spec) == expected
    # One that wants GPUs alone goes where the GPUs are.
    assert put(rule("tetris-scattered"), cluster, job("new", shape(1, cpus_per_node=0))) == {
        "n1": (0,)
    }
