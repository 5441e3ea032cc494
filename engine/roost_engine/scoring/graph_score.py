"""The graph score: a model reads the tree of the cluster and scores whole candidate sets.

It is in the score slot like any score policy: whatever fails, the heuristic beside it answers.
Scores are rounded, so that candidates whose scores differ by less than kernels' rounding are equal
and the first of them is taken. Page: docs/graph.md.
"""

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.errors import PolicyError
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.scoring.graph_candidates import Parts, candidate_rows, context_of
from roost_engine.scoring.graph_jobs import Communicates, typical
from roost_engine.scoring.graph_tree import GraphModel, GraphTree

ROUNDED_TO = 1e-4  # models agree to 1e-5 from one processor or batch to the next


class GraphScore:
    """A policies.ClusterScore for the one cluster of one engine.

    Args:
        model: the network.
    """

    def __init__(self, model: GraphModel) -> None:
        self.name, self._model = model.name, model
        self._communicates: Communicates = typical
        self._tree: GraphTree | None = None
        self._cluster: Cluster | None = None

    def expect(self, communicates: Communicates) -> None:
        """Ask this for the communication of jobs from now on; without it jobs are typical."""
        self._communicates, self._tree = communicates, None

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy.

        Raises:
            PolicyError: always; the engine asks `score_within`.
        """
        raise PolicyError(f"{self.name} scores candidates only within their cluster")

    def score_within(self, question: ScoreQuestion) -> NDArray[np.float32]:
        """See policies.ClusterScore."""
        scores = self.tree(question).scores(*self.described(question))
        rounded: NDArray[np.float32] = np.rint(scores / ROUNDED_TO).astype(np.float32)
        return rounded * np.float32(ROUNDED_TO)

    def described(self, question: ScoreQuestion) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return what the model's head reads: the candidates' columns, and their embeddings.

        Raises:
            PolicyError: the model could not answer.
        """
        tree, parts = self.tree(question), Parts.of(question)
        job = self._communicates(question.job, question.candidates.shape.gpu_count)
        rows = candidate_rows(question, parts, tree.graph, job)
        return rows, context_of(question.cluster, tree, parts)

    def tree(self, question: ScoreQuestion) -> GraphTree:
        """Return the embeddings of the cluster as it is now.

        Raises:
            PolicyError: the model could not answer.
        """
        if self._tree is None or self._cluster is not question.cluster:
            self._tree, self._cluster = GraphTree(self._model, self._communicates), question.cluster
            # A tree of a policy that was in the slot before may have taken the first changes.
            question.cluster.watch_again()
        self._tree.refresh(question.cluster, question.spec_of)
        return self._tree
