"""Episodes played on a Ray cluster, or on a local Ray; see rollout_engine.

A group of episodes is a task. Tasks keep nothing, so one whose machine is lost is played again
elsewhere, to the same result. Workers need Roost with its extra `train` installed; the trace and
the network are sent to them. A worker plays each group as one process does, so on processors that
round alike the result is that of `rollout_engine.InProcess`, bit by bit.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch

from roost_sim.sweeps.ray_engine import Ray, connect
from roost_train.environments.episodes import Episodes
from roost_train.errors import TrainError
from roost_train.improvement.rollout_engine import InProcess, Meter, Player, Rollout, groups

_RETRIES = 3  # of a group whose worker or machine was lost


class RayRollouts:
    """A RolloutEngine; to be used with `with`, which disconnects at the end.

    Args:
        address: of a Ray cluster, "auto" for the one that this machine is part of; None: start a
            local Ray.
        process_count: cores of the local Ray.

    Raises:
        RayError: no library, or no cluster at the address.
    """

    def __init__(self, address: str | None, process_count: int) -> None:
        self._ray: Ray = connect(address, process_count)
        self._task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(_play)
        self._sent: tuple[Episodes, object] | None = None  # the trace travels once

    def __enter__(self) -> "RayRollouts":
        """Return the engine itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect, and stop a local Ray."""
        self._ray.shutdown()

    def collect(
        self,
        episodes: Episodes,
        seeds: Sequence[int],
        player: Player,
        after: Meter = lambda done_count: None,
    ) -> Rollout:
        """See RolloutEngine.

        Raises:
            TrainError: a group failed, or its machine was lost too often.
        """
        if self._sent is None or self._sent[0] is not episodes:
            self._sent = episodes, self._ray.put(episodes)
        shared, sent = self._sent[1], self._ray.put(player)
        place_of = {
            self._task.remote(shared, group, sent): place
            for place, group in enumerate(groups(seeds))
        }
        parts: dict[int, Rollout] = {}
        try:
            while len(parts) < len(place_of):
                waiting = [one for one, place in place_of.items() if place not in parts]
                ready, _ = self._ray.wait(waiting, num_returns=1)
                for reference in ready:
                    parts[place_of[reference]] = self._fetched(reference)
                after(sum(len(part.trajectories) for part in parts.values()))
        finally:
            for reference, place in place_of.items():
                if place not in parts:
                    self._ray.cancel(reference)
        found = Rollout()
        for place in range(len(place_of)):  # not in the order in which they came
            found.trajectories += parts[place].trajectories
            found.trials += parts[place].trials
        return found

    def _fetched(self, reference: Any) -> Rollout:
        try:
            found: Rollout = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            reason = (str(error).strip().splitlines() or [repr(error)])[-1]
            raise TrainError(f"episodes on Ray failed: {reason}") from error
        return found


def _play(episodes: Episodes, seeds: Sequence[int], player: Player) -> Rollout:
    """Play one group, on a worker."""
    torch.set_num_threads(1)
    return InProcess().collect(episodes, seeds, player)
