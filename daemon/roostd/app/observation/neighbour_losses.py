"""What running jobs lose by their neighbours, as a share of their speed.

Beside another job on a GPU it is what the job reports, of its speed alone, or else what the site's
table of pairs, corrected, expects. Beside others on a node it is what the model of neighbours
predicted when the job last reported another speed. Of all other jobs nothing is known.
"""

from roost_engine.domain.model import JobId
from roostd.state import DaemonState


def lost_frac(state: DaemonState, job_id: JobId) -> float | None:
    """Return the share of its speed that a running job loses by its neighbours.

    Args:
        state: has the engine, and what jobs report.
        job_id: the job.

    Returns:
        0 to 1; None where that is not known.
    """
    engine, record = state.engine, state.engine.managed(job_id)
    if record is None:
        return None
    seats, pairs = engine.cluster.seats, engine.policies.learned.sharing
    partners = () if seats is None else seats.partners(job_id)
    if not partners or pairs is None:
        return state.progress.predicted_loss(record)
    beside = [other.spec for one in partners if (other := engine.managed(one)) is not None]
    losses = [pairs.lost_frac(record.spec, other) for other in beside]
    return max((loss for loss in losses if loss is not None), default=None)
