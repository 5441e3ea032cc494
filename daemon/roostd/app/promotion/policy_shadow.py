"""Feeds the policy in shadow, and keeps its choices: the daemon's side of `policy_shadow_worker`.

The decision loop only appends to a list. A task of its own sends what has gathered, a few hundred
events at a time, and reads the answer. A shadow that falls too far behind or dies begins again with
the next engine; the daemon's decisions never wait for it.
"""

import asyncio
import pickle
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import structlog

from roost_engine.domain.actions import Action, Place
from roost_engine.domain.errors import JournalError, PolicyError, RoostError
from roost_engine.domain.events import Event
from roost_engine.plugins.plugins import Plugins
from roost_engine.policies.canary import Slot
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.shadow import ShadowChoice
from roost_formats.models.score import score_file
from roostd.app.decision.recorder import Recorder
from roostd.app.promotion import policy_shadow_worker
from roostd.app.promotion.policy_shadow_worker import Request, ShadowTask, Step
from roostd.app.promotion.promoted_policies import plugins_with
from roostd.config.policy_names import PolicyName
from roostd.ops.promotions import ShadowRequest
from roostd.ops.worker_process import WorkerProcess
from roostd.state import DaemonState, ShadowFigures

_log = structlog.get_logger(__name__)

# Not by -m: pickles name classes of the module, which would then not be those of __main__.
_WORKER = f"from {policy_shadow_worker.__name__} import main; main()"
_EVERY_S = 0.25
_BATCH_COUNT = 200  # events; pickling one takes about 20 us
_BACKLOG_LIMIT = 50_000
_ANSWER_LIMIT_S = 60.0


class ShadowFailed(RoostError):
    """The process died, took too long, or its policy cannot be used."""


class PolicyShadow:
    """See the module.

    Args:
        state: receives the figures.
        recorder: the journal.
    """

    def __init__(self, state: DaemonState, recorder: Recorder) -> None:
        self._state, self._recorder = state, recorder
        self._process = WorkerProcess(("-c", _WORKER))
        self._pending: deque[Request | Step] = deque()  # another one for each shadow that begins
        self._request: ShadowRequest | None = None  # of which the state has the figures
        self._is_on = False

    def begin(self, plugins: Plugins, speeds: tuple[ModelSpeeds, ...]) -> None:
        """Begin again beside a fresh engine, if a policy is in shadow.

        Args:
            plugins: of that engine.
            speeds: of the models that users may name.
        """
        self._pending = deque()
        request, before = self._state.promotions.shadow, self._state.shadow
        is_same, self._request = request == self._request, request
        self._is_on = request is not None
        if request is None:
            self._state.shadow = None
            return
        self._state.shadow = before if before is not None and is_same else ShadowFigures()
        self._state.shadow.fault = ""
        try:
            self._pending.append(_task(request, plugins, speeds, self._state))
        except PolicyError as error:
            self._fail(str(error))

    def observe(self, event: Event, actions: Sequence[Action]) -> None:
        """Take note of a step of the engine. Called after each."""
        if not self._is_on:
            return
        if len(self._pending) >= _BACKLOG_LIMIT:
            self._fail(f"it is {_BACKLOG_LIMIT} events behind")
            return
        places = tuple(
            (action.job_id, action.placement) for action in actions if isinstance(action, Place)
        )
        self._pending.append((event, places))

    async def run(self) -> None:
        """Feed the shadow until cancelled."""
        await self.recall()
        while True:
            await asyncio.sleep(_EVERY_S)
            if self._is_on:
                await self.turn()

    async def recall(self) -> None:
        """Count what the policy in shadow chose before roostd was restarted."""
        request, folder = self._state.promotions.shadow, self._state.config.paths.state_dir
        if request is None:
            return
        try:
            earlier = await asyncio.to_thread(_choices_of, request, folder)
        except JournalError as error:
            _log.warning("policy_shadow_forgot", error=str(error))
            return
        if self._state.promotions.shadow == request:
            self._state.shadow = figures = self._state.shadow or ShadowFigures()
            for choice in earlier:
                figures.add(choice)

    async def turn(self) -> None:
        """Send what has gathered, and take note of the answers.

        A shadow that begins meanwhile is left alone: choices and faults of the one before are not
        its own.
        """
        pending = self._pending
        try:
            while self._is_on and pending is self._pending and (request := self._next()):
                choices = await self._ask(request)
                if pending is self._pending:
                    self._keep(choices)
                await asyncio.sleep(0)
        except (ShadowFailed, OSError, EOFError, pickle.PickleError, TimeoutError) as error:
            await self.stop()
            if pending is self._pending:
                self._fail(str(error) or type(error).__name__)

    async def stop(self) -> None:
        """End the process, if there is one."""
        await self._process.stop()

    def _next(self) -> Request | None:
        if not self._pending:
            return None
        if isinstance(self._pending[0], ShadowTask):
            task = self._pending.popleft()
            assert isinstance(task, ShadowTask)
            return task
        batch: list[Step] = []
        while self._pending and len(batch) < _BATCH_COUNT:
            step = self._pending[0]
            if isinstance(step, ShadowTask):
                break
            self._pending.popleft()
            batch.append(step)  # type: ignore[arg-type]
        return tuple(batch)

    def _keep(self, choices: Sequence[ShadowChoice]) -> None:
        figures = self._state.shadow
        if figures is None:
            return
        figures.backlog = len(self._pending)
        self._recorder.note_shadow(choices)
        for choice in choices:
            figures.add(choice)

    def _fail(self, reason: str) -> None:
        self._is_on = False
        self._pending.clear()
        if self._state.shadow is not None:
            self._state.shadow.fault, self._state.shadow.backlog = reason, 0
        _log.warning("policy_shadow_stopped", error=reason)

    async def _ask(self, request: Request) -> tuple[ShadowChoice, ...]:
        answer = await self._process.ask(request, _ANSWER_LIMIT_S)
        if not isinstance(answer, tuple):
            raise ShadowFailed(str(answer))
        return answer


def _choices_of(request: ShadowRequest, folder: Path) -> list[ShadowChoice]:
    """Return what a policy in shadow has chosen, by the journal, oldest first."""
    name = str(PolicyName(request.slot, request.name))
    with closing(JournalReader(folder)) as reader:
        return [
            choice
            for run in reader.runs()
            for choice in reader.shadow_choices(run)
            if choice.policy == name
            and run.head.epoch_of_zero_s + choice.at_s >= request.since_epoch_s
        ]


def _task(
    request: ShadowRequest, plugins: Plugins, speeds: tuple[ModelSpeeds, ...], state: DaemonState
) -> ShadowTask:
    """Return the choice of policies of a shadow: the engine's own, with another one in its slot."""
    policy = PolicyName(request.slot, request.name, request.path)
    changed, _ = plugins_with(policy, state.config, speeds, replace(plugins, canary=None))
    order_path = _model_path(request, Slot.ORDER, changed.order_model, state)
    gate_path = _model_path(request, Slot.GATE, changed.gate_model, state)
    score = _score_path(state.config.choice.in_effect.model)
    if request.slot is Slot.SCORE:
        score = _score_path(request.path or request.name)
    return ShadowTask(
        slot=request.slot,
        policy=str(policy),
        plugins=changed,
        config=state.engine.config,
        order_path=order_path,
        gate_path=gate_path,
        score_path=score,
    )


def _model_path(request: ShadowRequest, slot: Slot, model: str, state: DaemonState) -> str:
    """Return the file of the model that decides in a slot of a shadow; "": no model does."""
    if request.slot is slot:
        return request.path
    promoted = state.promotions.promoted.get(slot)
    return promoted.path if promoted is not None and model else ""


def _score_path(model: str) -> str:
    path = score_file(model)
    return "" if path is None else str(path)
