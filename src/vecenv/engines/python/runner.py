"""The row loop: runs ops on Python environments. The sync, thread and process engines all use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import length_hint
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.batch import Batch, Mail, Op
from vecenv._batch.clocks import BUCKETS, Clocks
from vecenv._batch.faults import ENV_RAISED, Fault, OnError
from vecenv._batch.own import own_info
from vecenv._batch.starts import WATCHED
from vecenv._util.forks import HERE, Word
from vecenv.engines.python.calls import BOOLS, checked_info, copied_info, item_view, wrong_flags
from vecenv.engines.python.copies import end_copy
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.episodes import Episodes
from vecenv.engines.python.restarts import report_restart
from vecenv.engines.python.row_loop import Lost, clock, row_loop
from vecenv.errors import RestartLimit, SpaceError

_RESET, _ROLL = int(Op.RESET), int(Op.ROLL)
_NOTHING = object()
_SAMPLED_FIRST, _SAMPLED, _MANY_TURNS = 16, 64, 1000
"""One exchange of all rows in this many is timed env by env: among the first thousand, and later."""


class RowRunner(Episodes):
    """Runs the ops of a block of rows on the envs that belong to them.

    A failing env never stops the others: its failure is put into the row's mail.

    Args:
        envs: one env per row of `batch`.
        batch: the rows, local to this runner.
        first: index of the first row in the engine's batch.
        origin: index of that batch's first row among all envs, for names and seeds.
        factories: how to build the envs again, used with `on_error="restart"`.
        on_error: "raise" leaves a failed env alone until it is reset; "restart" builds it again.
        lost: rows whose env was rebuilt because their worker died, and why; their next op reports it.
        watched: keep `clocks.current` up to date, for others to see which env is running.
        here: 0 in processes that are copies of this one and must end (`copies.py`); `HERE` in the user's own threads.

    Attributes:
        finished: set for each row once its op has run and its columns are written. Engines clear it.
    """

    def __init__(
        self,
        envs: list[gymnasium.Env[Any, Any]],
        batch: Batch,
        clocks: Clocks,
        *,
        first: int = 0,
        origin: int = 0,
        factories: Sequence[Factory] = (),
        on_error: OnError = "raise",
        lost: dict[int, Fault] | None = None,
        watched: bool = False,
        here: Word = HERE,
    ) -> None:
        super().__init__(envs, batch, clocks, first, origin, factories, on_error, here)
        self.finished = np.zeros(len(envs), np.bool_)
        self._lost = lost or {}
        self._failures: tuple[type[BaseException], ...] = ENV_RAISED
        """What counts as a failure of an env while results are written."""
        self._everyone = range(len(envs))
        self._ran = 0
        """How many rows were run."""
        self._started = 0
        """When the exchange that is running began, by `clock`."""
        self._end_after: list[int] = []
        """Rows whose episode ends with the exchange that is running."""
        self._resets: list[int] = []
        """Rows of that exchange that began an episode."""
        self._absent: list[int] = []
        """Rows of that exchange that failed: there is no result of theirs to note."""
        self._running: Sequence[int] = ()
        """Rows of that exchange; none once they are handed back."""
        self._noting = False
        """Whether all of them ran and their results are being written."""
        self._interrupt: BaseException | None = None
        """Ctrl-C that came while an episode began; raised when the exchange is complete."""
        self._ahead: Iterator[int] = iter(())
        """Rows of that exchange that have not begun."""
        self._obs: list[Any] = []
        """Observations of rows of the exchange that are not stored at once, in order, without those of `_absent`."""
        self._unusual: list[tuple[int, Any, Any, Any, Any]] = []
        """Flags and infos of the rows of the exchange that have any, and observations if these are not stored."""
        self._kept: list[np.ndarray] = []
        """Last observations, kept for restarts: a step that is refused shows the last good one, not its own."""
        self._keeps = on_error == "restart"
        discrete = isinstance(batch.observation_layout.space, gymnasium.spaces.Discrete)
        self._usual: type = int if discrete else np.ndarray
        """The usual type of observations. Those of another type are looked at with more care."""
        self._flat = batch.observation_layout.flat_view(batch.obs)
        """All observations in a row, if each is an array with one axis: the fastest way to store them. Else None."""
        size = 0 if self._flat is None else len(self._flat) // len(envs)
        self._places = [slice(row * size, row * size + size) for row in range(len(envs))]
        """Where the observation of each row is in `_flat`."""
        stored, copies_end = self._flat is not None, here is not HERE
        self._step_rows = row_loop(stored, watched, False, copies_end)
        self._step_timed_rows = row_loop(stored, True, True, copies_end)
        self._write_all_obs = batch.observation_layout.bulk_writer(batch.obs)
        self._write_final = batch.observation_layout.writer(batch.final_obs)
        self._read_actions = batch.action_layout.read_many(batch.actions)
        self._ones = np.ones(len(envs), batch.episode_length.dtype)
        self._ops = item_view(batch.op)
        self._returns, self._lengths = item_view(batch.episode_return), item_view(batch.episode_length)
        self._rewards = item_view(batch.reward)
        self._terminated = item_view(batch.terminated)
        self._truncated = item_view(batch.truncated)
        self._done = item_view(batch.done)
        self._busy, self._rows_run = item_view(clocks.busy), item_view(clocks.rows_run)
        self._spent, self._histogram = item_view(clocks.total), item_view(clocks.histogram)

    def run(self, rows: Sequence[int]) -> None:
        """Run `batch.op[row]` on each of the rows, given ascending; then columns are written and `finished` is set."""
        self._run(rows, _index(rows, len(self.envs)), self.finished)

    def run_all(self) -> None:
        """The same with all rows at once; `finished` stays as it is."""
        self._run(self._everyone, ..., None)

    @property
    def is_running(self) -> bool:
        """Whether `run` was left by an error before all its rows were run and written: see `interrupted`."""
        return len(self._running) > 0

    def _run(self, rows: Sequence[int], index: Any, finished: np.ndarray | None) -> None:
        """Run the rows, which `index` picks from a column, and set `finished` for them if it is given.

        This is the hot path of every Python engine. Two passes: the first does little but step, the second notes what
        came back, all rows at once where they are regular.
        """
        ahead = iter(rows)
        self._noting, self._ahead, self._running = False, ahead, rows  # no call in between: see `interrupted`
        count, size, ran = len(rows), len(self.envs), self._ran
        self._started = started = clock()
        sampled = _SAMPLED if ran > _MANY_TURNS * size else _SAMPLED_FIRST
        times: list[int] | None = [] if ran % (sampled * size) < size else None
        self._exchanges += 1
        self._ran = ran + count
        if 1 in self._terminated.tobytes() or 1 in self._truncated.tobytes():
            self._clear_ended(rows)
        if self._keeps:
            self._kept = [column.copy() for column in self.batch.obs]
        self._step_all(rows, index, times)
        self._noting = True
        self._current[0] = -1
        if times is not None:
            self._sample(rows, times)
        self._note(rows, index, finished)
        self._busy[0] += clock() - started
        self._rows_run[0] += count
        if self._interrupt is not None:
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt

    def _clear_ended(self, rows: Sequence[int]) -> None:
        """Clear the flags and totals of those rows whose last op ended an episode."""
        every = len(rows) == len(self.envs)
        for flags in (self._terminated.tobytes(), self._truncated.tobytes()):
            row = flags.find(1)
            while row >= 0:
                if every or row in rows:
                    self._returns[row], self._lengths[row] = 0.0, 0
                    self._terminated[row] = self._truncated[row] = self._done[row] = False
                row = flags.find(1, row + 1)

    def _step_all(self, rows: Sequence[int], index: Any, times: list[int] | None) -> None:
        """Step or reset each row: see `_step_rows`.

        If `times` is given, the clock's reading before each row and after the last is appended.
        """
        self._obs = []
        envs, places = self.envs, self._places
        if index is not ...:
            envs, places = [envs[row] for row in rows], [places[row] for row in rows]
        actions = self._read_actions(index, len(rows))
        if self.batch.raw_actions:
            actions = [self.batch.raw_actions.pop(row, action) for row, action in zip(rows, actions, strict=True)]
        turns = zip(self._ahead, self._begin_instead(rows, index, envs), actions, places, strict=True)
        if times is None:
            self._step_rows(self, turns, times)
        else:
            self._step_timed_rows(self, turns, times)
            times.append(clock())

    def _begin_instead(self, rows: Sequence[int], index: Any, envs: list[Any]) -> list[Any]:
        """The envs of the rows; in place of those that are not to be stepped, objects whose `step` is `begin`."""
        ops = self._ops.tobytes() if index is ... else self.batch.op[index].tobytes()
        place = 0 if self._lost else ops.find(_RESET)
        if place < 0:
            return envs
        instead = envs.copy()
        if self._lost:
            for place, row in enumerate(rows):
                if ops[place] == _RESET or row in self._lost:
                    instead[place] = SimpleNamespace(step=partial(self.begin, row))
            return instead
        while place >= 0:
            instead[place] = SimpleNamespace(step=partial(self.begin, rows[place]))
            place = ops.find(_RESET, place + 1)
        return instead

    def begin(self, row: int, action: Any) -> tuple[Any, float, bool, bool, Any]:
        """Begin an episode of a row; the observation and info of `reset`, as a step that returns them.

        The action is not used, as in Gymnasium.
        """
        if row in self._lost:
            raise Lost
        obs, info = self._reset(row)
        self._resets.append(row)
        return obs, 0.0, False, False, info

    def _note(self, rows: Sequence[int], index: Any, finished: np.ndarray | None) -> None:
        """Write the columns of the rows that were run and hand them back."""
        if self._flat is None:
            self._note_obs(rows, index)
        if self._unusual:
            for row, obs, terminated, truncated, info in self._unusual:
                if row in self._absent:
                    continue
                try:
                    self._note_unusual(row, obs, terminated, truncated, info)
                except self._failures as error:
                    self._refuse(row, error)
            self._unusual = []
        self._settle(index, finished)

    def _note_obs(self, rows: Sequence[int], index: Any) -> None:
        """Write the observations that were not stored at once."""
        present, where = rows, index
        if self._absent:
            present = where = [row for row in rows if row not in self._absent]
        try:
            together = self._write_all_obs(where, self._obs)
        except self._failures:  # objects of an env's own that raise when they are read
            together = False
        if not together:
            for row, obs in zip(present, self._obs, strict=True):
                try:
                    self._write_obs(row, obs)
                except self._failures as error:
                    self._refuse(row, error)
        self._obs = []  # freed now, their memory is warm for the next exchange

    def _note_unusual(self, row: int, obs: Any, terminated: Any, truncated: Any, info: Any) -> None:
        """A row with an info, or with flags that are not both plainly False."""
        if type(terminated) not in BOOLS or type(truncated) not in BOOLS:
            raise SpaceError(wrong_flags(terminated, truncated))
        if type(info) is not dict:
            info = checked_info(info)
        if info:
            self.batch.mail[row] = Mail(info)
        if terminated or truncated:
            self._end(row, obs, terminated, truncated)

    def _refuse(self, row: int, error: BaseException) -> None:
        """Something that a row's env returned does not fit: that is a failure of the env."""
        self._restore_obs(row)
        self._failed(row, self._fault(row, error))

    def _restore_obs(self, row: int) -> None:
        """Undo what a step that is refused has stored, if last observations are kept."""
        for kept, column in zip(self._kept, self.batch.obs, strict=False):
            column[row] = kept[row]

    def _end(self, row: int, obs: Any, terminated: bool, truncated: bool) -> None:
        """An episode ended. If the row is to roll, keep what ended it and begin the next one."""
        rolls, mail = self._ops[row] == _ROLL, None
        if rolls:
            self._keep_final(row, obs)
            mail = self.batch.mail.pop(row, None)
            if mail is not None:
                self.batch.mail[row] = Mail({}, final_info=copied_info(mail.info))
        # Only now: what raised above is a step that failed, not an episode that ended.
        self._terminated[row], self._truncated[row] = terminated, truncated
        self._end_after.append(row)
        if not rolls:
            self._done[row] = True
            return
        try:
            obs, info = self._reset(row)
            self._write_obs(row, obs)
            info = own_info(checked_info(info))
            if mail is not None:
                self.batch.mail[row].info = info
            elif info:
                self.batch.mail[row] = Mail(info, final_info={})
        except ENV_RAISED as error:
            self._failed(row, Fault.of(error, "reset", seed=self._last_seed(row)))
        except BaseException as interrupt:
            self.batch.mail[row] = Mail(fault=Fault.of(interrupt, "reset", seed=self._last_seed(row)))
            self._interrupt = interrupt

    def _keep_final(self, row: int, obs: Any) -> None:
        """Write the last observation of an episode, before that of the next is stored."""
        if self._flat is None:
            self._write_final(row, obs)
        else:
            self.batch.final_obs[0][row] = self.batch.obs[0][row]

    def _settle(self, index: Any, finished: np.ndarray | None) -> None:
        """Bring the totals of the rows' episodes up to date and hand the rows back."""
        batch = self.batch
        for row in self._absent:
            self._rewards[row] = 0.0  # that of the step before is still there
            self._lengths[row] -= 1
        for row in self._resets:
            self._returns[row], self._lengths[row], self._done[row] = 0.0, -1, False
        if index is ...:
            np.add(batch.episode_return, batch.reward, batch.episode_return)
            np.add(batch.episode_length, self._ones, batch.episode_length)
        else:
            batch.episode_return[index] += batch.reward[index]
            batch.episode_length[index] += 1
        self._resets, self._absent, self._end_after = [], [], []
        if finished is not None:
            finished[index] = True
        self._running = ()

    def run_whatever_happens(self, rows: Sequence[int]) -> None:
        """Like `run`, in a worker, where Ctrl-C does not come: anything an env raises is its own failure.

        Never raises. `finished` is not kept.
        """
        self._failures = (BaseException,)
        while rows:
            self._running, self._noting = rows, True  # an error before `_run` begins is a failure of all rows
            try:
                self._run(rows, _index(rows, len(self.envs)), None)
                return
            except BaseException as error:
                rows = self.interrupted(error)

    def interrupted(self, error: BaseException) -> Sequence[int]:
        """`run` was left by `error`: the row it was at has failed. Returns the rows after it, which did not run.

        An interrupt between two rows counts as one in the first of them, whose result is lost. Where it came while
        results were being written, the results of all rows are lost.
        """
        rows = self._running
        if not rows:
            return ()
        if not self._here[0]:
            end_copy(error)
        self._current[0] = -1
        if self._noting:
            self._lose(rows, error)
            return ()
        place = max(0, len(rows) - length_hint(self._ahead) - 1)
        ran, self._noting = rows[: place + 1], True
        del self._obs[place - len(set(ran[:place]).intersection(self._absent)) :]
        if rows[place] not in self._absent:
            self._absent.append(rows[place])
            self.batch.mail[rows[place]] = Mail(fault=self._fault(rows[place], error))
        self._note(ran, _index(ran, len(self.envs)), self.finished)
        return rows[place + 1 :]

    def _lose(self, rows: Sequence[int], error: BaseException) -> None:
        """Give up the results of an exchange: all its rows have failed."""
        everyone = tuple(self.first + row for row in rows)
        for row in rows:
            self.batch.mail[row] = Mail(fault=replace(self._fault(row, error), rows=everyone))
        self._obs, self._unusual = [], []
        self._resets, self._absent, self._end_after = [], [], []
        self.finished[list(rows)] = True
        self._running, self._interrupt = (), None

    def _fault(self, row: int, error: BaseException, action: Any = _NOTHING) -> Fault:
        """What went wrong with the op of a row."""
        elapsed = (clock() - self._started) / 1e9
        if self._ops[row] == _RESET:
            return Fault.of(error, "reset", seed=self._last_seed(row), elapsed=elapsed)
        if action is _NOTHING:
            (action,) = self._read_actions(slice(row, row + 1), 1)
        return Fault.of(error, "step", action, self._last_seed(row), elapsed=elapsed)

    def _failed(self, row: int, fault: Fault, rebuilt: bool = False) -> None:
        """Report the fault, or build the env again and end its episode, as `on_error` says.

        `rebuilt`: the env is new already, because its worker died and was started again.
        """
        ended_before = row in self._end_after
        mail = self.batch.mail.get(row)
        final_info = mail.final_info if ended_before and mail is not None else {}
        self.batch.mail[row] = Mail(fault=fault)
        if fault.interrupt is not None:
            self._interrupt = fault.interrupt
        if not ended_before:
            self._absent.append(row)
        if self._on_error == "raise":
            return
        batch, op = self.batch, int(self.batch.op[row])
        self._lost.pop(row, None)
        if self._start_kinds[row]:
            noted = tuple(batch.start[row].tolist()) if self._start_kinds[row] > WATCHED else None
            another = fault.error is not None and fault.error.row not in (None, self.first + row)
            fault = replace(fault, start=noted, another=another)
        try:
            info = self._restart(row, op, fault, rebuilt, ended_before)
        except RestartLimit as error:
            batch.mail[row] = Mail(fault=replace(fault, error=error))
            return
        except ENV_RAISED as error:
            self._absent = [absent for absent in self._absent if absent != row]
            self._failed(row, Fault.of(error, "make", seed=self._last_seed(row)))
            return
        report_restart(batch, row, self._named + row, fault, info, final_info, ended_before)
        if not ended_before:
            (self._resets if op == _RESET else self._end_after).append(row)

    def _sample(self, rows: Sequence[int], times: list[int]) -> None:
        """Add how long each row took to its clocks."""
        for row, before, after in zip(rows, times, times[1:], strict=False):  # NumPy takes longer, also for 64 rows
            spent = after - before
            self._spent[row] += spent
            self._histogram[row, min(spent.bit_length(), BUCKETS - 1)] += 1


def _index(rows: Sequence[int], count: int) -> Any:
    """How to pick the rows from a column: no list where possible, which is several times slower."""
    if len(rows) == count:
        return ...
    return slice(rows[0], rows[0] + 1) if len(rows) == 1 else rows
