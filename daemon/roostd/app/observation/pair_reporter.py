"""Reports to a running engine what the speed of jobs has shown of pairs of kinds.

A run begins with what was known then (Plugins.neighbours). Once a minute in which speeds were
observed, the engine gets what has changed since, as an event: it is in the journal, so a replay has
it.
"""

from collections.abc import Callable

from roost_engine.domain.events import Event, PairsSeen
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.plugins.plugins import Plugins
from roost_engine.policies.neighbour_losses import PredictsLosses
from roostd.state import DaemonState
from roostd.telemetry.learned_pairs import PairKey, by_key, changes_of
from roostd.telemetry.speed_source import pairs_of_sources, sources_of

_REPORT_EVERY_S = 60.0


class PairReporter:
    """See the module.

    Args:
        state: has the clock, the engine and the speeds of jobs.
        plugins: returns those of the run.
        emit: puts an event on the engine's queue.
    """

    def __init__(
        self, state: DaemonState, plugins: Callable[[], Plugins], emit: Callable[[Event], None]
    ) -> None:
        self._state, self._plugins, self._emit = state, plugins, emit
        self._of: Plugins | None = None  # of the run that knows `_known`
        self._known: dict[PairKey, PairCorrection] = {}
        self._reported_s, self._reported_count = state.clock.now_s(), 0

    def poll(self) -> None:
        """Report what has changed if that is due. To be called about once a second."""
        state = self._state
        now_s, plugins = state.clock.now_s(), self._plugins()
        if plugins is not self._of:
            self._of, self._known, self._reported_count = plugins, by_key(plugins.neighbours), -1
        score = state.engine.policies.score
        if now_s - self._reported_s < _REPORT_EVERY_S or not isinstance(score, PredictsLosses):
            return
        sources = sources_of(state.speed_sources(), score.name)
        count = sum(source.report_count for source in sources)
        if not sources or count == self._reported_count:
            return
        self._reported_s, self._reported_count = now_s, count
        changed = changes_of(self._known, pairs_of_sources(sources, score.name))
        if changed:
            self._known.update(by_key(changed))
            self._known = {key: pair for key, pair in self._known.items() if pair.mean}
            self._emit(PairsSeen(at_s=now_s, pairs=changed))
