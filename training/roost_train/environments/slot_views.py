"""What an agent reads at a decision of the placement slot, and of the gate slot.

Placement: each option is a candidate, with the columns that a score policy reads
(roost_engine.cluster.features), or those of a graph score: the columns of its candidates, and the
embeddings of what the candidate takes (roost_engine.scoring.graph_columns). Gate: the only option
is to take the offer; "none" declines it (roost_engine.gate.offer_features). All have the same line
of everything else.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS
from roost_engine.scoring.graph_columns import CANDIDATE_COLUMNS, CONTEXT_LEVELS, HIDDEN

PLACEMENT_COLUMNS = COLUMNS
GRAPH_PLACEMENT_COLUMNS = (
    *CANDIDATE_COLUMNS,
    *(f"{level}_{number}" for level in CONTEXT_LEVELS for number in range(HIDDEN)),
)


@dataclass(frozen=True, slots=True, eq=False)
class SlotInput:
    """A decision_run.Seen.

    Attributes:
        jobs: float32 [option, column].
        cluster: float32 [offer_features.CONTEXT_COLUMNS].
    """

    jobs: NDArray[np.float32]
    cluster: NDArray[np.float32]
