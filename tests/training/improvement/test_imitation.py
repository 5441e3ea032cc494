import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch
from tests.training.environments.small_episodes import episodes
from tests.training.environments.test_decisions import decision

from roost_train.environments.decisions import Decision
from roost_train.errors import TrainError
from roost_train.improvement.imitation import ImitationParameters, imitate, judge
from roost_train.improvement.rollout import play, teacher
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.selector_net import SelectorNet, SelectorSizes

pytestmark = pytest.mark.torch


def fresh_net() -> SelectorNet:
    torch.manual_seed(1)
    return SelectorNet(SelectorSizes(job_channels=(2, 2), cluster_channels=(2, 2), hidden=16))


def test_a_selector_learns_to_choose_as_its_teacher_and_replays_as_well() -> None:
    drawn = episodes(job_count=120, teacher="smallest-first+consolidation+open", loads=(1.3,))
    decisions = [one for played in play(drawn, range(4), teacher) for one in played.decisions]
    net = fresh_net()
    with torch.no_grad():
        net.skip *= -1.0  # at the start it prefers what its teacher does not
    before = judge(net, decisions)
    losses: list[float] = []
    parameters = ImitationParameters(passes=12, batch_count=16, rate=5e-3)
    imitate(net, decisions, parameters, lambda done, loss: losses.append(loss))
    after = judge(net, decisions)
    # Jobs of the same size differ by their submission only, and are taken for each other.
    assert before.same_frac < 0.6
    assert after.same_frac > 0.7
    assert losses[-1] < losses[0]
    assert len(losses) == 12

    held_out = range(50, 54)
    own = np.mean([one.mean_jct_s for one in play(drawn, held_out, SelectorAgent(net))])
    its = np.mean([one.mean_jct_s for one in play(drawn, held_out, teacher)])
    # Four short episodes: one job that is taken for another of its size moves the mean by percents.
    assert own == pytest.approx(its, rel=0.15)


def test_the_same_seed_gives_the_same_weights() -> None:
    decisions = [decision(4, action=place % 4, seed=place) for place in range(40)]
    first = imitate(fresh_net(), decisions, ImitationParameters(passes=2))
    second = imitate(fresh_net(), decisions, ImitationParameters(passes=2))
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_decisions_without_a_choice_teach_nothing() -> None:
    one = decision(2)
    forced = Decision(one.jobs, one.cluster, np.array([True, False, False]), 0)
    with pytest.raises(TrainError, match="no decision had a choice"):
        imitate(fresh_net(), [forced], ImitationParameters())
    with pytest.raises(TrainError, match="no decision had a choice"):
        judge(fresh_net(), [forced])
    assert judge(fresh_net(), [forced, one]).decision_count == 1


def test_the_pass_that_did_best_on_held_out_decisions_counts() -> None:
    decisions = [decision(4, action=place % 4, seed=place) for place in range(40)]
    contrary = [decision(4, action=(place + 1) % 4, seed=place) for place in range(40)]
    begun = fresh_net()
    before = judge(begun, contrary).same_frac
    done: list[int] = []
    parameters = ImitationParameters(passes=30, batch_count=8, rate=1e-2, patience=3)
    net = imitate(begun, decisions, parameters, lambda count, _: done.append(count), contrary)
    assert judge(net, contrary).same_frac >= before  # the start competes too
    assert len(done) < 30  # what it learns is wrong there, so it was not learned to the end
    assert judge(imitate(fresh_net(), decisions, parameters), decisions).same_frac > 0.7
