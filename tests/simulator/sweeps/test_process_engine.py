from tests.simulator.sweeps.cases import Scripted, sweep, template

from roost_sim.sweeps.process_engine import ProcessEngine
from roost_sim.sweeps.sweep import Case, Done, Failed, InProcess


def cases(*names: str) -> list[Case]:
    return [Case(name, seed, None) for seed, name in enumerate(names)]


def test_processes_come_to_what_one_process_comes_to() -> None:
    todo = [Case(name, seed, 1.5) for seed in (0, 1) for name in ("fifo", "random-order")]
    figures = []
    for engine in (InProcess(), ProcessEngine(2)):
        runs = [run for run in engine.perform(sweep(20), todo) if isinstance(run, Done)]
        by_case = {
            run.case: (
                {
                    name: value
                    for name, value in run.document.items()
                    if name != "wall_s" and not name.startswith("decision_")
                },
                run.curves,
            )
            for run in runs
        }
        figures.append([by_case[case] for case in todo])
    assert figures[0] == figures[1]


def test_a_worker_that_dies_costs_its_case_only() -> None:
    todo = cases("dies", "works", "fails", "leaves", "works")
    finished = list(ProcessEngine(2).perform(Scripted(template=template()), todo))
    assert sorted(run.case for run in finished) == sorted(todo)
    reasons = {run.case.policy: run.reason for run in finished if isinstance(run, Failed)}
    assert reasons == {
        "dies": "its process was ended by SIGKILL; was there too little memory?",
        "leaves": "its process ended with exit code 3",
        "fails": "as told",
    }
    assert sum(isinstance(run, Done) for run in finished) == 2


def test_closing_gives_up_the_rest() -> None:
    running = ProcessEngine(2).perform(Scripted(template=template()), cases(*["works"] * 50))
    assert isinstance(next(running), Done)
    running.close()
    assert list(running) == []


def test_no_case_needs_no_process() -> None:
    assert list(ProcessEngine(2).perform(sweep(), [])) == []
