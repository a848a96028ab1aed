"""Beginning episodes of Python envs, and building envs again: with other arguments, or after a failure."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import gymnasium

from vecenv._batch.batch import Batch, Op
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import ENV_RAISED, Fault, OnError, RestartPolicy
from vecenv._batch.seeding import NO_SEED
from vecenv._batch.starts import Starts
from vecenv._util.forks import Word
from vecenv._util.text import type_name
from vecenv.engines.python.calls import EnvCalls, checked_info, item_view, not_awaited
from vecenv.engines.python.copies import NoCopies, end_copy
from vecenv.engines.python.envs import Factory, close_quietly
from vecenv.engines.python.factories import Renewal
from vecenv.engines.python.restarts import end_episode, seed_restart
from vecenv.errors import SpaceError

_STEP = int(Op.STEP)


class Episodes(EnvCalls):
    """The envs of a block of rows, and how their episodes begin. Arguments are those of `RowRunner`."""

    def __init__(
        self,
        envs: list[gymnasium.Env[Any, Any]],
        batch: Batch,
        clocks: Clocks,
        first: int,
        origin: int,
        factories: Sequence[Factory],
        on_error: OnError,
        here: Word,
    ) -> None:
        super().__init__(envs, batch, clocks, first, origin)
        self._factories = factories
        self._on_error = on_error
        self._here = here
        self._policies = [RestartPolicy(first + row) for row in range(len(envs))]
        self._exchanges = 0
        """How often rows were run."""
        self._built_with: dict[int, dict[str, Any]] = {}
        """Constructor arguments of rows that were built again because reset options had other ones."""
        self._write_obs = batch.observation_layout.writer(batch.obs)
        self._seeds, self._start_kinds = item_view(batch.seed), item_view(batch.start_kind)
        self._starts = Starts(self._start_kinds, batch.start)

    def _reset(self, row: int) -> tuple[Any, Any]:
        """Begin an episode with the row's seed and options; what `reset` returned, unchecked but for its form."""
        if not self.batch.options:
            return self._reset_with(row, None)
        options = self.batch.options.pop(row, None)
        try:
            return self._reset_with(row, self._renew(row, options) if type(options) is Renewal else options)
        except ENV_RAISED:
            if options is not None and self._on_error == "restart":
                self.batch.options[row] = options  # the episode is to begin all the same
            raise

    def _reset_with(self, row: int, options: Any) -> tuple[Any, Any]:
        seed = self._seeds[row]
        if self._start_kinds[row]:
            self._starts.note(row, self.envs[row], seed, options)
        try:
            if seed == NO_SEED:
                result = self.envs[row].reset(options=options) if options is not None else self.envs[row].reset()
            else:
                self.batch.last_seed[row] = seed
                self._seeds[row] = NO_SEED
                result = self.envs[row].reset(seed=seed, options=options)
        except BaseException as error:
            if not self._here[0]:
                end_copy(error)
            raise
        if not self._here[0]:
            end_copy()
        if type(result) is not tuple or len(result) != 2:
            if inspect.iscoroutine(result):
                raise SpaceError(not_awaited("reset", result))
            raise SpaceError(f"reset() must return (observation, info), got {type_name(result)}")
        return result

    def _renew(self, row: int, wanted: Renewal) -> dict[str, Any] | None:
        """Build the row's env again unless it was built with these arguments; the options that its reset gets."""
        if not wanted.is_met_by(self._built_with.get(row, {})):
            with NoCopies():
                self.envs[row] = wanted.rebuild(self._factories[row], self.envs[row])
            self._built_with[row] = wanted.kwargs
        return wanted.options

    def _last_seed(self, row: int) -> int:
        return int(self.batch.last_seed[row])

    def _restart(self, row: int, op: int, fault: Fault, rebuilt: bool, ended_before: bool) -> dict[str, Any]:
        """Build the row's env again and begin its next episode, unless that is left to the next op."""
        batch = self.batch
        if not rebuilt:
            self._policies[row].allow(fault, self._exchanges)
            batch.restarts[row] += 1
            self._rebuild(row)
        seed_restart(batch, row, self._named + row)
        if not ended_before:
            end_episode(batch, row)
        if op == _STEP:
            return {}
        obs, info = self._reset(row)
        self._write_obs(row, obs)
        return checked_info(info)

    def _rebuild(self, row: int) -> None:
        close_quietly(self.envs[row])
        with NoCopies():
            self.envs[row] = self._factories[row]()
        self._built_with.pop(row, None)
