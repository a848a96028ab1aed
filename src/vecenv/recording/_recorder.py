"""The flight recorder: what the front does so that the current episode of every env can be run again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Batch, Rows
from vecenv._batch.faults import Fault
from vecenv._batch.seeding import NO_SEED
from vecenv._batch.starts import WATCHED
from vecenv.errors import EnvError, NotFiniteError, UnknownRow, VecenvError, WorkerDied, WorkerTimeout, name_recording
from vecenv.recording._begins import Begins, noted_start
from vecenv.recording._copies import copied_value, copier
from vecenv.recording._episodes import Episodes, Facts
from vecenv.recording._failures import failure_of, failure_of_fault
from vecenv.recording._files import Folder
from vecenv.recording._kept_options import KeptOptions
from vecenv.recording._log import Kept, Log, size_of
from vecenv.recording._recording import Recording

_FLAGS = 10
"""Bytes of a reward and two flags."""
_DEATHS = 64
"""Workers that died whose files are remembered, for rows of theirs that are told later."""
_Written: TypeAlias = tuple[str, str | None, str]
"""Path of a file; why it cannot be replayed, None if it can; and what the command needs besides."""


class Recorder:
    """Keeps what goes back and forth, in the front, so that it outlives a dead worker.

    The front calls `sending` before rows are sent, `sent` afterwards and `received` when they are back; `failed` when
    an error is about to be raised. Nothing here changes what a user gets, but for the path of a file in errors and in
    `info["fault"]`.

    Args:
        batch: of all rows.
        begins: how episodes began.
        facts: of the vector env.
        everyone: the array that the front sends if it sends all rows in order.
        folder: where files are written.
        limit: bytes to keep in all.
    """

    def __init__(self, batch: Batch, begins: Begins, facts: Facts, everyone: Rows, folder: Path, limit: int) -> None:
        self._batch, self._begins, self._facts = batch, begins, facts
        self._everyone, self._count = everyone, len(batch)
        self._folder = Folder(folder)
        self._log = Log(len(batch), limit)
        self._options = KeptOptions(batch)
        self._episodes = Episodes(batch, begins, facts, self._log, self._options)
        self._copy_actions = copier(batch.action_layout, digests=False)
        self._copy_obs = copier(batch.observation_layout, digests=True)
        self._unsized = bool(batch.action_layout.by_value or batch.observation_layout.by_value)
        self._sizes: dict[int, int] = {}
        """Bytes of an entry of all rows, by what it has besides."""
        self._failed: dict[int, Recording] = {}
        """Episodes that ended in a failure, until the row is reset."""
        self._hung: dict[int, _Written | None] = {}
        """Files of rows that did not answer, until they do."""
        self._deaths: dict[tuple[Any, ...], str | None] = {}
        """Files of the rows at which workers died that were started again, the latest last."""

    # --- what the front calls ----------------------------------------------------------------------------------------

    def sending(self, rows: Rows, ops: Any) -> None:
        """These rows are about to be sent; their columns are written."""
        batch, whole = self._batch, rows is self._everyone
        actions = self._copy_actions(batch.actions, None if whole else rows)
        given = {row: copied_value(value) for row, value in batch.raw_actions.items()} if batch.raw_actions else None
        self._log.add((self._size(actions, 0, whole), None if whole else rows.copy(), ops, actions, given))
        if batch.options:
            self._options.sending(rows.tolist())
        if type(ops) is int:
            self._note_seeds(rows)
        self._begins.expect(rows)
        if self._failed:
            for row in rows.tolist():
                self._failed.pop(row, None)

    def sent(self) -> None:
        """Rows were sent, and there is nothing to do until they are back."""
        self._log.tidy()

    def unsent(self, rows: Rows) -> None:
        """These rows were not sent, whether or not `sending` had been told of them."""
        self._log.take_back(rows)

    def received(self, rows: Rows) -> None:
        """These rows were received; their columns are as the engine wrote them."""
        batch, whole = self._batch, len(rows) == self._count
        if self._hung:
            for row in rows.tolist():
                self._hung.pop(row, None)
        if batch.mail:
            self._read_causes(rows)
        obs = self._copy_obs(batch.obs, None if whole else rows)
        if whole:
            flags = batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy()
        else:
            flags = batch.reward[rows], batch.terminated[rows], batch.truncated[rows]
        began, starts = self._begins.take(rows)
        size = self._size(obs, _FLAGS, whole)
        if began is not None:
            size += len(began) + starts.nbytes if isinstance(began, bytes) else self._begins.row_bytes * len(began)
        number = self._log.add((size, None if whole else rows.copy(), obs, *flags, began, starts))
        if began is not None:
            self._log.began(number, began)
            if self._episodes.seeds or self._options.any:
                self._forget_resets(began)

    def replaced(self, rows: Rows, states: dict[str, np.ndarray]) -> None:
        """These rows of a kernel are now in other states, which is where their recordings begin."""
        batch = self._batch
        obs = self._copy_obs(batch.obs, rows)
        flags = batch.reward[rows], batch.terminated[rows], batch.truncated[rows]
        size = self._size(obs, _FLAGS, False) + self._begins.row_bytes * len(rows)
        number = self._log.add((size, rows.copy(), obs, *flags, rows.copy(), tuple(states.values())))
        self._log.began(number, rows)
        self._forget_resets(rows)

    def failed(self, error: VecenvError) -> None:
        """This error is about to be raised: write the episode of its env, and tell the error where. Raises nothing."""
        try:
            written = self._write_failed(error)
        except Exception as failure:
            self._folder.complain(failure)
            return
        if written is not None:
            name_recording(error, *written)

    def recording(self, row: Any) -> Recording:
        """The current episode of a row.

        Raises:
            UnknownRow: there is no such env.
        """
        count = self._count
        if isinstance(row, bool) or not isinstance(row, (int, np.integer)) or not 0 <= row < count:
            raise UnknownRow(f"env id {row!r:.40}, this vector env has {count} (0 ... {count - 1})")
        return self._failed.get(int(row)) or self._episodes.current(int(row))

    # --- episodes begin ----------------------------------------------------------------------------------------------

    def _note_seeds(self, rows: Rows) -> None:
        known = self._episodes.seeds
        for row, seed in zip(rows.tolist(), self._batch.seed[rows].tolist(), strict=True):
            known.pop(row, None)
            if seed != NO_SEED:
                known[row] = seed

    def _forget_resets(self, began: Rows | bytes) -> None:
        """These rows began an episode: how they were to begin it is of no interest."""
        if isinstance(began, bytes):
            began = (np.frombuffer(began, np.uint8) > WATCHED).nonzero()[0]
        for row in began.tolist() if self._episodes.seeds else ():
            self._episodes.seeds.pop(row, None)
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
        made = self._with_failure(self._episodes.current(row), failure_of(error))
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
            self.received(np.array([row]))
        begin = self._rolled_from(row)
        if begin is None or error.name.startswith("obs"):
            made = self._episodes.current(row)
        else:
            made = self._episodes.ended(row, begin, self._copy_obs(self._batch.final_obs, np.array([row])))
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
        if self._facts.engine == "ray" and failure["kind"] in ("died", "hung") and failure["exitcode"] is None:
            problems = (*problems, f"whether its actor was at env {made.row} or at another of its envs is not known")
        return replace(made, failure={**failure, "step": made.steps}, problems=problems)

    def _read_causes(self, rows: Rows) -> None:
        """Write the episodes of envs that failed and were built again, and say so in their infos."""
        mine = set(rows.tolist())
        causes = [(row, mail.cause) for row, mail in self._batch.mail.items() if mail.cause is not None and row in mine]
        for row, cause in sorted(causes, key=lambda pair: pair[1].another):
            try:
                path = self._write_cause(row, cause)
            except Exception as failure:
                self._folder.complain(failure)
                continue
            told = self._batch.mail[row].info.get("fault")
            if path is not None and isinstance(told, dict):
                told["recording"] = path

    def _write_cause(self, row: int, cause: Fault) -> str | None:
        error = cause.error
        if cause.start is None:
            made = self._episodes.delivered(row)
        else:
            made = self._episodes.unbegun(row, *noted_start(cause.start))
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
