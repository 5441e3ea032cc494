"""Imitation: a job selector learns to choose as a teacher did.

`imitate` asks nothing of where the decisions come from; a warm start from accounting or from a
journal uses it with decisions of its own (roost_train.environments.decisions.Decision). A decision
with one allowed action teaches nothing and is left out.

Source: Peng et al., DL2, TPDS 2021, section 4: cross-entropy on the decisions of the incumbent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from roost_train.environments.decisions import Decision, DecisionBatch, batches
from roost_train.errors import TrainError
from roost_train.networks.policy_net import PolicyNet
from roost_train.networks.selector_net import masked_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationParameters:
    """How imitation is trained.

    Attributes:
        seed: of the order of the batches.
        passes: over the decisions.
        batch_count: decisions in a step.
        rate: learning rate of the first pass; it falls to a tenth.
        weight_decay: of every weight.
        patience: training ends after so many passes without a better one, where decisions are
            held out.
    """

    seed: int = 0
    passes: int = 6
    batch_count: int = 64
    rate: float = 2e-3
    weight_decay: float = 1e-4
    patience: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationFigures:
    """How well a selector chooses as its teacher did.

    Attributes:
        decision_count: decisions with a choice.
        loss: mean cross-entropy.
        same_frac: share in which the selector's first choice was the teacher's.
    """

    decision_count: int
    loss: float
    same_frac: float


def imitate(
    net: PolicyNet,
    decisions: Sequence[Decision],
    parameters: ImitationParameters,
    after_pass: Callable[[int, float], None] = lambda done_count, loss: None,
    held_out: Sequence[Decision] = (),
) -> PolicyNet:
    """Train a selector on a teacher's decisions; it is changed in place and returned.

    Args:
        net: the selector.
        decisions: of the teacher.
        parameters: everything else.
        after_pass: called with the number of passes done and the mean loss of the last.
        held_out: decisions to judge by. The state, before the first pass or after one, that most
            often chooses on them as the teacher did is the result; empty: that of the last pass.

    Raises:
        TrainError: no decision had a choice.
    """
    useful = [one for one in decisions if one.mask.sum() > 1]
    if not useful:
        raise TrainError("no decision had a choice between two jobs: take more jobs")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(parameters.seed)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=parameters.rate, weight_decay=parameters.weight_decay
    )
    falling = torch.optim.lr_scheduler.LinearLR(
        optimiser, 1.0, 0.1, total_iters=max(parameters.passes - 1, 1)
    )
    best = _Best(net, held_out)
    for done_count in range(1, parameters.passes + 1):
        net.train()
        total = 0.0
        for part in batches(useful, parameters.batch_count, generator):
            loss = _loss(net, DecisionBatch.of(part))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            total += loss.item() * len(part)
        falling.step()
        after_pass(done_count, total / len(useful))
        if best.note(net) >= parameters.patience:
            break
    return best.back_in(net)


class _Best:
    """The state of a selector that did best on decisions that it does not learn from."""

    def __init__(self, net: PolicyNet, held_out: Sequence[Decision]) -> None:
        self._held_out, self._same_frac, self._worse_count = held_out, -1.0, 0
        self.note(net)

    def note(self, net: PolicyNet) -> int:
        """Judge the selector as it is now; return how many states came since the best one."""
        net.eval()
        same_frac = judge(net, self._held_out).same_frac if self._held_out else 0.0
        if self._held_out and same_frac <= self._same_frac:
            self._worse_count += 1
        else:
            self._same_frac, self._worse_count = same_frac, 0
            self._state = {name: value.clone() for name, value in net.state_dict().items()}
        return self._worse_count

    def back_in(self, net: PolicyNet) -> PolicyNet:
        """Return the selector with its best state."""
        net.load_state_dict(self._state)
        net.eval()
        return net


def judge(net: PolicyNet, decisions: Sequence[Decision]) -> ImitationFigures:
    """Compare a selector with a teacher on decisions.

    Raises:
        TrainError: no decision had a choice.
    """
    useful = [one for one in decisions if one.mask.sum() > 1]
    if not useful:
        raise TrainError("no decision had a choice between two jobs: take more jobs")
    loss, same = 0.0, 0
    with torch.inference_mode():
        for part in batches(useful, 256, torch.Generator().manual_seed(0)):
            batch = DecisionBatch.of(part)
            logs = masked_logs(net(batch.jobs, batch.cluster), batch.mask)
            loss -= float(logs.gather(1, batch.actions[:, None]).sum())
            same += int((logs.argmax(dim=1) == batch.actions).sum())
    count = len(useful)
    return ImitationFigures(decision_count=count, loss=loss / count, same_frac=same / count)


def _loss(net: PolicyNet, batch: DecisionBatch) -> torch.Tensor:
    logs = masked_logs(net(batch.jobs, batch.cluster), batch.mask)
    return -logs.gather(1, batch.actions[:, None]).mean()
