import numpy as np

from roost_sim.traces.job_names import job_names


def test_names_differ_and_share_beginnings() -> None:
    names = job_names(2_000, np.random.default_rng(0))
    assert len(set(names)) == 2_000
    assert len({name.rpartition("-")[0] for name in names}) < 200


def test_the_random_numbers_decide() -> None:
    once, again, other = (job_names(9, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert once == again != other
    assert job_names(0, np.random.default_rng(0)) == ()
