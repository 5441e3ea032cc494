"""A-SRPT's virtual machine."""

from tests.simulator.hand_worked import run, starts


def test_asrpt_serves_as_jobs_end_on_the_virtual_machine() -> None:
    # Virtual lengths, predicted seconds * GPUs / 8: 1: 100; 2: 400; 3: 50; 4: 10. The machine works
    # on 1 until 100. 3 came at 20 and ends there at 70 (1 had 80 left), 4 came at 30: ends at 40,
    # then 3 at 80. At 200, when the cluster is free, 4, 3 and 1 have ended there, 2 has not.
    jobs = run(
        *("asrpt", ("1", 0, 200, 8), ("2", 10, 30, 8), ("3", 20, 30, 8), ("4", 30, 30, 8)),
        predicted={"1": 100, "2": 400, "3": 50, "4": 10},
    )
    assert starts(jobs) == {"1": 0.0, "4": 200.0, "3": 230.0, "2": 260.0}
