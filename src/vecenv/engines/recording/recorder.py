"""The recorder: an engine around an engine that keeps the current episode of every env."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Op, Rows
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns
from vecenv._batch.seeding import NO_SEED
from vecenv._batch.starts import WATCHED
from vecenv.engines import Engine, SupportsStates
from vecenv.engines.decorator import Decorator, undecorated
from vecenv.engines.recording.begins import Begins, PythonBegins, begins_of, noted_start
from vecenv.engines.recording.copies import copied_value, copier
from vecenv.engines.recording.episodes import Facts, RecordingBuilder
from vecenv.engines.recording.failures import failure_of, failure_of_fault
from vecenv.engines.recording.files import Folder
from vecenv.engines.recording.kept_options import KeptOptions
from vecenv.engines.recording.log import Kept, Log, size_of
from vecenv.engines.recording.packed import Packed
from vecenv.engines.recording.recording import Recording
from vecenv.errors import EnvError, NotFiniteError, UnknownRow, VecenvError, WorkerDied, WorkerTimeout, name_recording

_RESET = int(Op.RESET)
_FLAGS = 10
"""Bytes of a reward and two flags."""
_DEATHS = 64
"""Dead workers whose files are remembered, for rows of theirs that are reported later."""
_Written: TypeAlias = tuple[str, str | None, str]
"""Path of a file; why it cannot be replayed, None if it can; and what the command needs besides."""


class Recorder(Decorator):
    """Around an engine: keeps what is sent and received, in the process of the front, so that it outlives dead workers.

    Nothing here changes what a user gets, except the path of a file in errors and in `info["fault"]`.

    Args:
        engine: that runs the rows; around it there may be other decorators, inside of this one.
        autoreset: name of the mode.
        build: of a row: how its env is made, as data.
        folder: where files are written.
        limit: bytes to keep in all.
    """

    def __init__(
        self, engine: Engine, autoreset: str, build: Callable[[int], dict[str, Any]], folder: Path, limit: int
    ) -> None:
        super().__init__(engine)
        batch, innermost = engine.batch, undecorated(engine)
        self._batch, self._count = batch, len(batch)
        self._begins: Begins = begins_of(innermost)
        self._facts = Facts(engine.name, autoreset, build)
        self._knows_running_env = getattr(innermost, "knows_running_env", True)
        self._states_of = innermost.states_of if isinstance(innermost, SupportsStates) else None
        self._sends = self._states_of is None and not getattr(innermost, "checks_actions", False)
        """Recordings begin with seeds, which `send` notes: also if all rows are exchanged at once."""
        self._everyone: Rows = np.arange(self._count)
        """The array with which the front sends all rows in order, once it was seen: recognising it takes no time."""
        self._folder = Folder(folder)
        self._packed = Packed.of(batch, self._begins) if isinstance(self._begins, PythonBegins) else None
        """Copies exchanges of all rows at once, if it can."""
        self._log = Log(len(batch), limit, None if self._packed is None else self._packed.opened)
        self._options = KeptOptions(batch)
        self._recordings = RecordingBuilder(batch, self._begins, self._facts, self._log, self._options)
        self._copy_actions = copier(batch.action_layout, digests=False)
        self._copy_obs = copier(batch.observation_layout, digests=True)
        self._no_seeds = np.full_like(batch.seed, NO_SEED).tobytes()
        """The column of seeds when no row has one, as in most exchanges."""
        self._unsized = bool(batch.action_layout.by_value or batch.observation_layout.by_value)
        self._sizes: dict[int, int] = {}
        """Bytes of an entry of all rows, by what it has besides."""
        self._failed: dict[int, Recording] = {}
        """Episodes that ended in a failure, until the row is reset."""
        self._hung: dict[int, _Written | None] = {}
        """Files of rows that did not answer, until they do."""
        self._deaths: dict[tuple[Any, ...], str | None] = {}
        """Files of the rows at which workers died that were started again, the latest last."""

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        try:
            self._note_sent(rows)
            self.inner.send(rows)
        except BaseException:
            if not np.isin(rows, self.inner.pending()).any():
                self._log.take_back(rows)
            raise
        self._log.tidy()

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        try:
            rows = self.inner.recv(count, timeout)
        except EnvError as error:
            self.failed(error)
            raise
        self._note_received(rows)
        return rows

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        everyone = self._everyone
        if self._sends:
            self._batch.set_ops(alive, over)
            self.send(everyone)
            self.recv(self._count)
            return self._batch.count_ended()
        self._note_actions(everyone, whole=True, ops=None)
        try:
            ended = self.inner.exchange_all(alive, over, rotate)
        except EnvError as error:
            self.failed(error)
            raise
        if ended < 0:
            self._log.take_back(everyone)
        else:
            self._note_received(everyone)
        return ended

    def set_rows(self, rows: Rows, columns: dict[str, np.ndarray]) -> None:
        """As of engines; recordings of these rows begin with their new states."""
        self.inner.set_rows(rows, columns)
        self._note_states(rows)

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """As of engines; its steps are not recorded, so recordings begin with the states after it."""
        try:
            out = self.inner.rollout(actions, steps, alive, over, policy, streams)
        except NotFiniteError:  # all rows have moved on
            self._note_states(self._everyone)
            raise
        self._note_states(self._everyone)
        return out

    # --- recordings --------------------------------------------------------------------------------------------------

    def failed(self, error: VecenvError) -> None:
        """Write the episode of the env that this error names, and put the path into the error. Raises nothing."""
        try:
            written = self._write_failed(error)
        except Exception as failure:
            self._folder.complain(failure)
            return
        if written is not None:
            name_recording(error, *written)

    def recording(self, row: Any) -> Recording:
        """The current episode of a row. Raises UnknownRow if there is no such env."""
        count = self._count
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not 0 <= row < count:
            raise UnknownRow(f"env id {row!r:.40}, this vector env has {count} (0 ... {count - 1})")
        return self._failed.get(int(row)) or self._recordings.current(int(row))

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _note_sent(self, rows: Rows) -> None:
        """Keep what these rows are about to be sent with."""
        batch, packed, whole = self._batch, self._packed, rows is self._everyone
        if not whole and len(rows) == self._count and np.array_equal(rows, self._everyone):
            self._everyone, whole = rows, True
        if packed is not None and whole and not batch.raw_actions:
            entry, resets = packed.sent()
            self._log.add(entry)
            self._note_sending(rows)
        else:
            ops = batch.op if whole else batch.op[rows]
            resets = _RESET in ops.tobytes()
            self._note_actions(rows, whole, ops.copy() if resets else None)
        if resets and (self._recordings.seeds or batch.seed.tobytes() != self._no_seeds):
            self._note_seeds(rows[batch.op[rows] == _RESET])

    def _note_actions(self, rows: Rows, whole: bool, ops: np.ndarray | None) -> None:
        batch = self._batch
        actions = self._copy_actions(batch.actions, None if whole else rows)
        given = {row: copied_value(value) for row, value in batch.raw_actions.items()} if batch.raw_actions else None
        self._log.add((self._size(actions, 0, whole), None if whole else rows.copy(), ops, actions, given))
        self._note_sending(rows)

    def _note_sending(self, rows: Rows) -> None:
        """Keep the options of these rows, and forget what their last episodes left."""
        if self._batch.options:
            self._options.sending(rows.tolist())
        self._begins.expect(rows)
        if self._failed:
            for row in rows.tolist():
                self._failed.pop(row, None)

    def _note_received(self, rows: Rows) -> None:
        """Keep the results of these rows; their columns are as the engine wrote them."""
        batch, whole = self._batch, len(rows) == self._count
        if self._hung:
            for row in rows.tolist():
                self._hung.pop(row, None)
        if batch.mail:
            self._read_causes(rows)
        if self._packed is not None and whole:
            entry, began = self._packed.results()
        else:
            entry, began = self._results(rows, whole)
        number = self._log.add(entry)
        if began is not None:
            self._log.began(number, began)
            if self._recordings.seeds or self._options.any:
                self._forget_resets(began)

    def _results(self, rows: Rows, whole: bool) -> tuple[tuple[Any, ...], Rows | bytes | None]:
        """The fields of Received, and which rows began an episode."""
        batch = self._batch
        obs = self._copy_obs(batch.obs, None if whole else rows)
        if whole:
            flags = batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy()
        else:
            flags = batch.reward[rows], batch.terminated[rows], batch.truncated[rows]
        began, starts = self._begins.take(rows)
        size = self._size(obs, _FLAGS, whole)
        if began is not None:
            size += len(began) + starts.nbytes if isinstance(began, bytes) else self._begins.row_bytes * len(began)
        return (size, None if whole else rows.copy(), obs, *flags, began, starts), began

    def _note_states(self, rows: Rows) -> None:
        """Let recordings of these rows begin with their states: what brought them there was not recorded."""
        assert self._states_of is not None
        batch, states = self._batch, self._states_of(rows)
        obs = self._copy_obs(batch.obs, rows)
        flags = batch.reward[rows], batch.terminated[rows], batch.truncated[rows]
        size = self._size(obs, _FLAGS, False) + self._begins.row_bytes * len(rows)
        number = self._log.add((size, rows.copy(), obs, *flags, rows.copy(), tuple(states.values())))
        self._log.began(number, rows)
        self._forget_resets(rows)

    # --- episodes begin ----------------------------------------------------------------------------------------------

    def _note_seeds(self, rows: Rows) -> None:
        known = self._recordings.seeds
        for row, seed in zip(rows.tolist(), self._batch.seed[rows].tolist(), strict=True):
            known.pop(row, None)
            if seed != NO_SEED:
                known[row] = seed

    def _forget_resets(self, began: Rows | bytes) -> None:
        """These rows began an episode: how they were to begin it is of no interest."""
        if isinstance(began, bytes):
            began = (np.frombuffer(began, np.uint8) > WATCHED).nonzero()[0]
        for row in began.tolist() if self._recordings.seeds else ():
            self._recordings.seeds.pop(row, None)
        if self._options.any:
            self._options.begun(began.tolist())

    # --- failures ----------------------------------------------------------------------------------------------------

    def _write_failed(self, error: VecenvError) -> _Written | None:
        row = getattr(error, "row", None)
        if row is None or not 0 <= row < self._count:
            return None
        if isinstance(error, NotFiniteError):
            return self._write_not_finite(error, row)
        if not isinstance(error, EnvError) or error.phase not in ("reset", "step"):
            return None
        if row in self._hung and isinstance(error, WorkerTimeout):
            return self._hung[row]
        made = self._with_failure(self._recordings.current(row), failure_of(error))
        written = self._write(made)
        if isinstance(error, WorkerTimeout):
            self._hung[row] = written
            return written
        self._failed[row] = made
        if isinstance(error, WorkerDied):
            self._options.lost(error.rows)
        else:
            self._options.failed(row, self._begins.peek(row) is not None)
        return written

    def _write_not_finite(self, error: NotFiniteError, row: int) -> _Written | None:
        if error.name.startswith("actions"):
            return None  # they were not sent
        if self._log.is_owed(row):
            self._note_received(np.array([row]))
        begin = self._rolled_from(row)
        if begin is None or error.name.startswith("obs"):
            made = self._recordings.current(row)
        else:
            made = self._recordings.ended(row, begin, self._copy_obs(self._batch.final_obs, np.array([row])))
        made = self._with_failure(made, {**failure_of(error), "phase": "step"})
        self._failed[row] = made
        return self._write(made)

    def _rolled_from(self, row: int) -> int | None:
        """With which entry the episode began that the last exchange ended, if it also began the next."""
        ended = self._batch.terminated[row] or self._batch.truncated[row]
        return self._log.begin_before(row) if ended else None

    def _write(self, made: Recording) -> _Written | None:
        path = self._folder.write(made)
        return None if path is None else (path, made.why_not_replayable, made.replay_options)

    def _with_failure(self, made: Recording, failure: dict[str, Any]) -> Recording:
        """A recording with what went wrong; a step that ended one episode may have failed to begin the next."""
        if failure["phase"] == "step" and not made.steps:
            failure = {**failure, "phase": "reset"}
        problems = made.problems
        if not self._knows_running_env and failure["kind"] in ("died", "hung") and failure["exitcode"] is None:
            problems = (*problems, f"whether its actor was at env {made.row} or at another of its envs is not known")
        return replace(made, failure={**failure, "step": made.steps}, problems=problems)

    def _read_causes(self, rows: Rows) -> None:
        """Write the episodes of envs that failed and were built again, and say so in their infos."""
        causes = [(row, mail.cause) for row, mail in self._batch.mail.items() if mail.cause is not None]
        if causes:
            mine = set(rows.tolist())
            causes = [(row, cause) for row, cause in causes if row in mine]
        for row, cause in sorted(causes, key=lambda pair: pair[1].another):
            try:
                path = self._write_cause(row, cause)
            except Exception as failure:
                self._folder.complain(failure)
                continue
            fault = self._batch.mail[row].info.get("fault")
            if path is not None and isinstance(fault, dict):
                fault["recording"] = path

    def _write_cause(self, row: int, cause: Fault) -> str | None:
        error = cause.error
        if cause.start is None:
            made = self._recordings.delivered(row)
        else:
            made = self._recordings.unbegun(row, *noted_start(cause.start))
        made = self._with_failure(made, failure_of_fault(cause))
        if self._begins.peek(row) is None:
            self._failed[row] = made
        if error is None:
            return self._folder.write(made)
        death = type(error).__name__, error.worker, error.pid, error.row
        if not cause.another:
            self._deaths[death] = self._folder.write(made)
            if len(self._deaths) > _DEATHS:
                del self._deaths[next(iter(self._deaths))]
        return self._deaths.get(death)

    def _size(self, kept: Kept, more: int, whole: bool) -> int:
        if not whole or self._unsized:
            return size_of(kept)
        if more not in self._sizes:
            self._sizes[more] = size_of(kept) + more * self._count
        return self._sizes[more]
