"""Past jobs for tests of reports."""

from dataclasses import replace

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_formats.journal.past_jobs import PastJob

N1 = NodeName("n1")
DAY_S = 86_400.0


def past_job(number: int = 1, user_id: int = 60001, day: int = 0, **changes: object) -> PastJob:
    """A watched job of two GPUs that Slurm started 100 s after Roost chose, elsewhere."""
    at_s = 1_800_000_000.0 + day * DAY_S
    found = PastJob(
        job_id=JobId(str(number)),
        user_id=user_id,
        partition="main",
        gpu_count=2,
        is_binding=False,
        queued_s=at_s,
        decided_s=at_s + 20.0,
        started_s=at_s + 120.0,
        ended_s=at_s + 3_720.0,
        planned=(NodeShare(N1, (0, 1)),),
        allocated=(NodeShare(N1, (5, 6)),),
        link_score=20,
        planned_link_score=400,
        best_link_score=400,
        stock_link_score=40,
        tier=0,
        planned_tier=0,
    )
    return replace(found, **changes)  # type: ignore[arg-type]
