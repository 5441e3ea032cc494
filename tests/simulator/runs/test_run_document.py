"""The JSON object of a run: every figure, as JSON."""

import json

from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Span
from roost_sim.runs.run_document import run_document
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.trace import make_trace
from roost_sim.worlds.world_spec import Speed, WorldSpec


def test_the_document_has_the_figures_of_the_report() -> None:
    run = Run(
        trace=make_trace("by hand", [0.0, 0.0], [10.0, 20.0], [8, 9]),
        cluster=preset("small"),
        policy=find_policy("fifo"),
        world=WorldSpec(speed=Speed.TRACE),
        span=Span(warm_up_frac=0.0, cool_down_frac=0.0),
    )
    report = simulate(run)
    document = run_document("fifo", 3, report)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["policy"], document["seed"], document["regime"]) == ("fifo", 3, "none")
    assert (document["jobs"], document["avg_jct_s"], document["makespan_s"]) == (2, 15.0, 20.0)
    assert (document["placed_node"], document["placed_rack"]) == (1, 1)
    assert document["comm_share"] is None  # the speed of the trace has no communication
