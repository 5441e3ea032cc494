"""Distillation: a ScoreNet learns to score candidates as the heuristic does, order and all.

The loss has three parts. Regression keeps the scores on the heuristic's scale. The pair loss takes
candidates that are neighbours in the heuristic's order and measures the error of their gap
relative to the gap: below 1 the order is kept, however small the gap, so a thousandth of a load
counts as much as a whole link. A penalty on the residual's last layer keeps the
residual from learning again what the skip already explains.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS
from roost_train.distillation.groups import LARGEST_GROUP, SMALLEST_GROUP, draw_groups
from roost_train.networks.score_net import ScoreNet

GAP_FLOOR = 1e-6  # gaps below float32's resolution are noise, not order


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperParameters:
    """Everything that shapes a run."""

    seed: int = 0
    hidden: int = 32
    steps: int = 2500
    batch_candidates: int = 1024
    first_rate: float = 1e-2
    last_rate: float = 1e-9
    residual_gain: float = 0.1
    pair_weight: float = 1e-5
    residual_penalty: float = 1.0
    fit_candidates: int = 20_000

    @property
    def run_name(self) -> str:
        """Return the name of a run's files; the seed is part of it."""
        return f"distil-h{self.hidden}-n{self.steps}-seed{self.seed}"


def teacher_scores(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the heuristic's scores in float64, without the rounding of HeuristicScore."""
    scores: NDArray[np.float64] = (features * HEURISTIC_WEIGHTS.astype(np.float64)).sum(axis=-1)
    return scores


def distil(
    parameters: HyperParameters, progress: Callable[[int, float], None] = lambda step, loss: None
) -> ScoreNet:
    """Train a net.

    Deterministic: the same parameters give the same weights on one machine and one release of
    torch. Other processors sum in another order, so bits may differ there; the order of candidates
    does not.

    Args:
        parameters: of the run.
        progress: called with (steps done, loss) after every step.
    """
    torch.manual_seed(parameters.seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng = np.random.default_rng(parameters.seed)
    net = ScoreNet.random(fit_skip(rng, parameters), parameters.hidden, parameters.residual_gain)
    for weight in net.parameters():
        weight.requires_grad_(True)
    optimiser = torch.optim.Adam(net.parameters(), lr=parameters.first_rate)
    decay = (parameters.last_rate / parameters.first_rate) ** (1 / parameters.steps)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, decay)
    for step in range(parameters.steps):
        groups = _batch(rng, parameters.batch_candidates)
        scores = net.forward(torch.from_numpy(groups))
        loss = distillation_loss(
            scores, torch.from_numpy(teacher_scores(groups)), parameters.pair_weight
        ) + parameters.residual_penalty * (net.weight3.square().mean() + net.bias3.square().sum())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        progress(step + 1, float(loss.detach()))
    return net


def fit_skip(rng: Generator, parameters: HyperParameters) -> NDArray[np.float64]:
    """Fit the skip by least squares on drawn groups; returns the best linear student, [column]."""
    groups = _batch(rng, parameters.fit_candidates).reshape(-1, len(COLUMNS))
    solution = np.linalg.lstsq(groups, teacher_scores(groups))[0]
    return np.asarray(solution, dtype=np.float64)


def distillation_loss(
    scores: torch.Tensor, teacher: torch.Tensor, pair_weight: float
) -> torch.Tensor:
    """Regression plus pair loss; see the module's docstring.

    Args:
        scores: [group, candidate], the student's.
        teacher: [group, candidate].
        pair_weight: of the pair loss.
    """
    ranked, order = torch.sort(teacher, dim=1)
    gaps = ranked.diff(dim=1)
    wrong = scores.gather(1, order).diff(dim=1) - gaps
    relative = wrong / gaps.clamp_min(GAP_FLOOR)
    pairs = torch.nn.functional.smooth_l1_loss(relative, torch.zeros_like(relative))
    return torch.nn.functional.mse_loss(scores, teacher) + pair_weight * pairs


def _batch(rng: Generator, candidate_count: int) -> NDArray[np.float64]:
    size = int(rng.integers(SMALLEST_GROUP, LARGEST_GROUP + 1))
    return draw_groups(rng, max(candidate_count // size, 1), size)
