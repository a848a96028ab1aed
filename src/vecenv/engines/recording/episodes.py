"""From what was kept to a recording of one env's episode."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.batch import Batch
from vecenv._util.version import __version__
from vecenv.engines.recording.begins import Begins, not_noted
from vecenv.engines.recording.copies import columns_of, is_data
from vecenv.engines.recording.digests import is_digested
from vecenv.engines.recording.kept_options import KeptOptions
from vecenv.engines.recording.log import Kept, Log, Received, Sent
from vecenv.engines.recording.recording import Recording

_FORGOTTEN = "how the episode began is no longer known"


@dataclass(frozen=True)
class Facts:
    """What is the same in all recordings of a vector env. `build(row)` describes how an env is made."""

    engine: str
    autoreset: str
    build: Callable[[int], dict[str, Any]]


class RecordingBuilder:
    """Builds recordings of episodes. `seeds` are those of resets that are under way, or that failed."""

    def __init__(self, batch: Batch, begins: Begins, facts: Facts, log: Log, options: KeptOptions) -> None:
        self._batch, self._begins, self._facts, self._log, self._options = batch, begins, facts, log, options
        self.seeds: dict[int, int] = {}
        self._digested = tuple(
            not leaf.by_value and is_digested(leaf.dtype.itemsize * int(np.prod(leaf.shape)))
            for leaf in batch.observation_layout.leaves
        )

    def current(self, row: int) -> Recording:
        """The episode that a row is in; or that which it was about to begin, if its reset did not come back."""
        peeked = self._begins.peek(row)
        return self.delivered(row) if peeked is None else self.unbegun(row, *self._begins.start(peeked, 0))

    def delivered(self, row: int) -> Recording:
        """The episode of the last results that were received or are expected."""
        complete, sent, received = self._log.of_row(row)
        if received:
            return self._of_entries(row, complete, sent, received)
        return self.unbegun(row, not_noted(self.seeds.get(row)), True, complete)

    def unbegun(self, row: int, start: dict[str, Any], had_options: bool, complete: bool = True) -> Recording:
        """An episode without any received results."""
        options = self._options.of_next(row) if had_options else self._options.of_none(row)
        return self._assembled(row, complete, [], [], start, options)

    def ended(self, row: int, begin: int, last_obs: Kept) -> Recording:
        """The episode of a row that began with the entry `begin` and ended with the last exchange, which rolled."""
        complete, sent, received = self._log.of_row(row, begin)
        entry, place = received[-1]
        last = Received(
            size=0,
            rows=np.array([row]),
            obs=last_obs,
            reward=entry.reward[place : place + 1],
            terminated=entry.terminated[place : place + 1],
            truncated=entry.truncated[place : place + 1],
            began=None,
            starts=None,
        )
        return self._of_entries(row, complete, sent, [*received[:-1], (last, 0)])

    def _of_entries(
        self, row: int, complete: bool, sent: list[tuple[Sent, int]], received: list[tuple[Received, int]]
    ) -> Recording:
        first, _ = received[0]
        place = first.place(row) if complete else -1
        if place < 0:
            start, had_options = {"kind": "unknown", "why": _FORGOTTEN}, True
        else:
            start, had_options = self._begins.start(first.starts, place)
        options = self._options.of_current(row) if had_options else self._options.of_none(row)
        return self._assembled(row, place >= 0, sent, received, start, options)

    def _assembled(
        self,
        row: int,
        complete: bool,
        sent: list[tuple[Sent, int]],
        received: list[tuple[Received, int]],
        start: dict[str, Any],
        options: dict[str, Any],
    ) -> Recording:
        problems: list[str] = []
        action_layout, observation_layout = self._batch.action_layout, self._batch.observation_layout
        actions = columns_of(action_layout, sent, "actions", (False,) * len(action_layout.leaves), problems)
        given = {step: entry.given[row] for step, (entry, _) in enumerate(sent) if entry.given and row in entry.given}
        if not is_data(given, "an action", problems):
            given, actions = {}, (None,) * len(actions)
        results = received[1:]
        return Recording(
            row=row,
            num_envs=len(self._batch),
            engine=self._facts.engine,
            autoreset=self._facts.autoreset,
            versions=versions(),
            build=self._facts.build(row),
            start=start,
            options=options,
            action_paths=tuple(leaf.path for leaf in action_layout.leaves),
            obs_paths=tuple(leaf.path for leaf in observation_layout.leaves),
            actions=actions,
            obs=columns_of(observation_layout, received, "obs", self._digested, problems),
            digested=self._digested,
            reward=np.array([entry.reward[place] for entry, place in results], np.float64),
            terminated=np.array([entry.terminated[place] for entry, place in results], np.bool_),
            truncated=np.array([entry.truncated[place] for entry, place in results], np.bool_),
            steps=len(sent),
            complete=complete,
            given=given,
            problems=tuple(problems),
        )


def versions() -> dict[str, str]:
    """Of what recordings depend on."""
    return {
        "vecenv": __version__,
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
