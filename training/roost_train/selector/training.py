"""The training of a slot from a trace: warm start, improvement, validation, release.

Everything lies in one folder, so that a training which was stopped at any moment continues from its
last checkpoint and comes out the same:

| file | content |
|---|---|
| config.json | configuration, trace and clusters; a training that continues must have the same |
| lock | held while a training runs here |
| start.pt | the selector after the warm start |
| last.pt | the last checkpoint of the improvement |
| best.pt | the checkpoint that was best in validation; the warm start counts too |
| log.jsonl | a line for each iteration and each validation |
| report.html | the same, as charts |
| selector.onnx, selector.json | the best; of other slots placement.onnx, graph.onnx, gate.onnx |
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, assert_never

import numpy as np
import torch

from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.traces.trace import Trace
from roost_sim.worlds.world_spec import WorldSpec
from roost_train.environments.decisions import Decision
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_run import Reads, Slot
from roost_train.errors import TrainError
from roost_train.improvement.checkpoint import read_checkpoint
from roost_train.improvement.expert_iteration import ExpertIteration
from roost_train.improvement.imitation import ImitationFigures, imitate, judge
from roost_train.improvement.improvement import Improvement, Learner, Method
from roost_train.improvement.linear_imitation import fit_skip
from roost_train.improvement.ppo import Ppo
from roost_train.improvement.rollout_engine import InProcess, Player, RolloutEngine, Teacher
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.graph_placement_net import GraphPlacementNet
from roost_train.networks.placement_net import PlacementNet
from roost_train.networks.policy_net import PolicyNet, fresh_net, net_of, residual_net
from roost_train.networks.selector_net import SelectorNet
from roost_train.networks.slot_net import SlotNet
from roost_train.release.gate_release import write_gate
from roost_train.release.graph_placement_release import write_graph_placement
from roost_train.release.placement_release import write_placement
from roost_train.release.selector_release import write_selector
from roost_train.selector.config import SelectorConfig, WarmStart, as_document
from roost_train.selector.start import read_selector
from roost_train.selector.training_folder import TrainingFolder, data_digest
from roost_train.selector.training_report import write_training_report

_FIRST_VALIDATION = 500_000  # seeds of episodes; imitation has lower ones, improvement a million on
_SAVED_COUNT = 64
_SEEDS_PER_IMITATION = 1_000  # of episodes, for each imitation.seed
_HELD_OUT_FRAC = 0.125  # of the imitated episodes

# (what is done, of how many)
Meter = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How a selector did on the episodes of validation, without drawing.

    Attributes:
        iteration: of the improvement; 0 is the warm start.
        mean_jct_s: mean completion time.
        to_teacher: mean over episodes of mean completion time over the teacher's.
        to_teacher_error: standard error of that mean.
    """

    iteration: int
    mean_jct_s: float
    to_teacher: float
    to_teacher_error: float


class SelectorTraining:
    """See the module.

    Args:
        trace: the jobs; training never sees others.
        clusters: on which episodes are played.
        config: everything else.
        folder: where the files are; made if it is missing.
        tell: called with a line for people.
        start: a selector's model file, from which the improvement begins; None: a warm start.
        rollouts: where episodes are played; it makes no difference to what comes out.

    Raises:
        TrainError: the folder holds another training, or the configuration contradicts itself.
    """

    def __init__(
        self,
        trace: Trace,
        clusters: tuple[ClusterSpec, ...],
        config: SelectorConfig,
        folder: Path,
        tell: Callable[[str], None] = lambda line: None,
        start: Path | None = None,
        rollouts: RolloutEngine | None = None,
    ) -> None:
        self._rollouts = rollouts or InProcess()
        self.config, self.folder, self._tell = config, folder, tell
        if start is not None and config.episodes.slot is not Slot.ORDER:
            raise TrainError("--start continues a selector of the order slot only")
        if config.warm_start is WarmStart.RESIDUAL and config.episodes.slot is Slot.GATE:
            raise TrainError("warm_start: residual is of the order and placement slots only")
        if config.episodes.reads is Reads.GRAPH and config.episodes.slot is not Slot.PLACEMENT:
            raise TrainError("episodes.reads: graph is of the placement slot only")
        first = _SEEDS_PER_IMITATION * config.imitation.seed
        if not 0 <= first <= _FIRST_VALIDATION - config.imitated_episodes:
            most = (_FIRST_VALIDATION - config.imitated_episodes) // _SEEDS_PER_IMITATION
            raise TrainError(
                f"imitation.seed {config.imitation.seed}: want 0 to {most}; a later one would"
                " imitate the episodes of validation"
            )
        given = None if start is None else read_selector(start)
        self._given = None if given is None else given[0]
        numbers = asdict(config.episodes)
        world = WorldSpec(speed=numbers.pop("speed"), compute_scale=numbers.pop("compute_scale"))
        self.episodes = Episodes(trace=trace, clusters=clusters, world=world, **numbers)
        self.about: dict[str, Any] = {
            "config": as_document(config),
            "trace": {"source": Path(trace.source).name, "job_count": len(trace)},
            "clusters": [one.name for one in clusters],
            "data_sha256": data_digest((trace,), clusters),
            **({} if given is None else {"start_sha256": given[1]}),
        }
        self._seeds = range(_FIRST_VALIDATION, _FIRST_VALIDATION + config.validated_episodes)
        self._of_teacher: list[float] = []
        self.files = TrainingFolder(folder, self.about)

    def run(self, meter: Meter = lambda done, total: None) -> Path:
        """Train, from wherever an earlier call has come to; return the model's path."""
        torch.set_num_threads(1)
        improvement = self._improvement(self._start())
        if (last := self.folder / "last.pt").exists():
            improvement.load(last)
        self._forget_after(len(improvement.done))
        while len(improvement.done) < self.config.iterations:
            meter(len(improvement.done), self.config.iterations)
            figures = improvement.iterate()
            self.files.log({"iteration": asdict(figures)})
            number = figures.number
            if number % self.config.validate_every == 0 or number == self.config.iterations:
                self._validate(
                    improvement.net, number, lambda: improvement.save(self.folder / "best.pt")
                )
            improvement.save(last)
            self._report()
        meter(self.config.iterations, self.config.iterations)
        return self._release()

    def best(self) -> dict[str, Any]:
        """Return the figures of the best validation so far."""
        return min(self.files.lines("validation"), key=lambda one: float(one["to_teacher"]))

    # -- the parts of a training -----------------------------------------------------------

    def _start(self) -> PolicyNet:
        """Return the selector after the warm start, made now or by an earlier call."""
        path = self.folder / "start.pt"
        if path.exists():
            return net_of(read_checkpoint(path))
        self.files.keep_lines(lambda line: False)  # of an earlier call that did not come to here
        torch.manual_seed(self.config.imitation.seed)
        is_residual = self.config.warm_start is WarmStart.RESIDUAL
        make = residual_net if is_residual else fresh_net
        begun = make(self.config.episodes.slot, self.config.episodes.reads)
        net = self._given or begun
        if self._given is None and not is_residual and self.config.imitated_episodes:
            net = self._imitated(net)
            self.files.log({"imitation": asdict(self._judge(net))})
        improvement = self._improvement(net)
        self._validate(net, 0, lambda: improvement.save(self.folder / "best.pt"))
        improvement.save(path)
        self._report()
        return net

    def _imitated(self, net: PolicyNet) -> PolicyNet:
        """Return a selector that has learned the teacher's choices.

        The last episodes are held out, and the selector that does best on them is returned: the
        fresh one, in the order slot the best that only weighs numbers, or the better of these two
        after one of the passes.
        """
        count, passes = self.config.imitated_episodes, self.config.imitation.passes
        held_count = max(round(_HELD_OUT_FRAC * count), 1) if count > 1 else 0
        first = _SEEDS_PER_IMITATION * self.config.imitation.seed
        middle, end = first + count - held_count, first + count
        taught, held_out = (
            self._teachers(range(*ends)) for ends in ((first, middle), (middle, end))
        )
        if self.config.episodes.slot is Slot.ORDER and taught and held_out:
            weighing = fit_skip(SelectorNet.residual(), taught)
            if judge(weighing, held_out).same_frac > judge(net, held_out).same_frac:
                net = weighing
        return imitate(
            net,
            taught,
            self.config.imitation,
            lambda done, loss: self._tell(f"imitation {done}/{passes}: loss {loss:.4f}"),
            held_out,
        )

    def _improvement(self, net: PolicyNet) -> Improvement:
        learner: Learner
        match self.config.improvement:
            case Method.PPO:
                learner = Ppo(net, self.config.ppo)
            case Method.EXPERT:
                learner = ExpertIteration(net, self.config.expert)
            case _:
                assert_never(self.config.improvement)
        return Improvement(learner, self.episodes, self._rollouts)

    def _judge(self, net: PolicyNet) -> ImitationFigures:
        return judge(net, self._teachers(self._seeds))

    def _teachers(self, seeds: range) -> list[Decision]:
        return self._decisions(seeds, Teacher())

    def _decisions(self, seeds: range, player: Player) -> list[Decision]:
        played = self._rollouts.collect(self.episodes, seeds, player, _no_meter)
        return [decision for one in played.trajectories for decision in one.decisions]

    def _mean_jcts_s(self, player: Player) -> list[float]:
        """Return the mean completion time of each episode of validation."""
        played = self._rollouts.collect(self.episodes, self._seeds, player, _no_meter)
        return [one.mean_jct_s for one in played.trajectories]

    def _validate(self, net: PolicyNet, iteration: int, save_best: Callable[[], None]) -> None:
        """Compare with the teacher on the episodes of validation; keep the best."""
        earlier = [one["to_teacher"] for one in self.files.lines("validation")]
        found = self.validation(net, iteration)
        self.files.log({"validation": asdict(found)})
        change = f"{found.to_teacher - 1:+.1%} (standard error {found.to_teacher_error:.1%})"
        self._tell(f"iteration {iteration}: completion time {change} of the teacher's")
        if not earlier or found.to_teacher < min(earlier):
            save_best()

    def validation(self, net: PolicyNet, iteration: int) -> Validation:
        """Play the episodes of validation."""
        if not self._of_teacher:
            self._of_teacher = self._mean_jcts_s(Teacher())
        net.eval()
        own = self._mean_jcts_s(SelectorAgent(net))
        ratios = np.array(own) / np.array(self._of_teacher)
        return Validation(
            iteration=iteration,
            mean_jct_s=float(np.mean(own)),
            to_teacher=float(ratios.mean()),
            to_teacher_error=float(ratios.std(ddof=1) / len(ratios) ** 0.5)
            if len(ratios) > 1
            else 0.0,
        )

    def _release(self) -> Path:
        net = net_of(read_checkpoint(self.folder / "best.pt"))
        saved = self._decisions(self._seeds[:4], SelectorAgent(net))
        step = max(len(saved) // _SAVED_COUNT, 1)
        card, saved = {**self.about, "best": self.best()}, saved[::step]
        if isinstance(net, PlacementNet):
            path = write_placement(net, saved, card, self.folder)
        elif isinstance(net, GraphPlacementNet):
            path = write_graph_placement(net, saved, card, self.folder)
        elif isinstance(net, SlotNet):
            path = write_gate(net, saved, card, self.folder)
        else:
            path = write_selector(net, saved, card, self.folder)
        self._report()
        return path

    # -- its files -------------------------------------------------------------------------

    def _forget_after(self, iteration: int) -> None:
        """Drop the lines of iterations that came after the last checkpoint."""
        self.files.keep_lines(
            lambda line: (
                line.get("iteration", {}).get("number", 0) <= iteration
                and line.get("validation", {}).get("iteration", 0) <= iteration
            )
        )

    def _report(self) -> None:
        kinds = ("imitation", "iteration", "validation")
        lines = {kind: self.files.lines(kind) for kind in kinds}
        write_training_report(self.folder / "report.html", self.about, lines)


def _no_meter(done_count: int) -> None:
    """Episodes beside the improvement have no progress bar."""
