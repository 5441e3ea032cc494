"""Which gate and which preemption an engine has, as plain data that a journal can keep.

A journal's run begins with it: what was chosen, and what the policies knew by then. Whoever builds
policies from the same and tells them the same events gets the same answers.
"""

from dataclasses import dataclass, replace

from roost_engine.engine import Policies
from roost_engine.gate.dally import DallyConfig, DallyGate
from roost_engine.gate.delay import DelayConfig, DelayGate, DelayState
from roost_engine.policies import GatePolicy, NoPreemption, OpenGate, PreemptPolicy, ScorePolicy
from roost_engine.prediction.speed_table import ModelSpeeds, TableOfSpeeds
from roost_engine.preemption.network_preemption import (
    NetworkPreemption,
    NetworkPreemptionConfig,
    PreemptionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What policies learned, to be kept over restarts; None: nothing."""

    gate: DelayState | None = None
    preemption: PreemptionState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The choice of policies.

    Attributes:
        gate: its numbers; None: every job takes the first offer.
        preemption: its numbers; None: nobody is stopped.
        speeds: of the models that users may name.
        knowledge: what the policies know from the start.
    """

    gate: DelayConfig | DallyConfig | None = None
    preemption: NetworkPreemptionConfig | None = None
    speeds: tuple[ModelSpeeds, ...] = ()
    knowledge: Knowledge = Knowledge()

    def policies(self, score: ScorePolicy) -> Policies:
        """Make the policies of a fresh engine."""
        gate = self._gate()
        return Policies(gate=gate, score=score, preemption=self._preemption(gate))

    def _gate(self) -> GatePolicy:
        match self.gate:
            case None:
                return OpenGate()
            case DallyConfig():
                return DallyGate(self.gate)
            case DelayConfig():
                gate = DelayGate(self.gate, TableOfSpeeds(self.speeds))
                if self.knowledge.gate is not None:
                    gate.restore(self.knowledge.gate)
                return gate

    def _preemption(self, gate: GatePolicy) -> PreemptPolicy:
        if self.preemption is None:
            return NoPreemption()
        sensitivity = gate.sensitivity if isinstance(gate, DelayGate) else None
        policy = NetworkPreemption(self.preemption, sensitivity)
        if self.knowledge.preemption is not None:
            policy.restore(self.knowledge.preemption)
        return policy


def knowledge_of(policies: Policies, before: Knowledge) -> Knowledge:
    """What policies know by now, for a later engine; what they do not keep stays as it was.

    Waits that are on are left out: a fresh engine counts them from its own beginning.
    """
    gate, preemption = before.gate, before.preemption
    if isinstance(policies.gate, DelayGate):
        gate = replace(policies.gate.state(), spells=())
    if isinstance(policies.preemption, NetworkPreemption):
        preemption = policies.preemption.state()
    return Knowledge(gate=gate, preemption=preemption)
