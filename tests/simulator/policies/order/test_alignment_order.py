"""Tetris' order: alignment against remaining work."""

from tests.simulator.hand_worked import run, starts


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
