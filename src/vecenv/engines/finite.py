"""Between the engine and the front: what is not finite is dealt with before a user sees it, whichever engine ran it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.batch import Mail, Op, Rows
from vecenv._batch.faults import RESTARTS, Fault
from vecenv._batch.finite import Finder, Finding, Policies
from vecenv.engines import Engine
from vecenv.engines.python.restarts import end_episode
from vecenv.errors import EnvError, NotFiniteError, WorkerTimeout

_NOBODY: Rows = np.zeros(0, np.int64)
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep


@dataclass
class _Again:
    """A row that is reset by the front: what is to be told of it once its new episode has begun.

    Attributes:
        op: what the row was sent to do.
        fault: as `info["fault"]`.
        columns: of the episode that ended before, by the name of the column; empty if none did.
        finals: final observations and final infos of it.
        final_info: its last info.
    """

    op: int
    fault: dict[str, Any]
    columns: dict[str, Any] = field(default_factory=dict)
    finals: list[tuple[np.ndarray, Any]] = field(default_factory=list)
    final_info: dict[str, Any] | None = None


class FiniteCheck:
    """Stands between the engine and the front: `recv` is the engine's, with what is not finite dealt with.

    Rows that were received, but may not be handed out because of an error or because fewer were asked for, are held
    here; for the front they are pending.

    Args:
        engine: whose results are looked at.
        given: what `make(check_finite=...)` takes.
        rolls: steps begin the next episode themselves: the autoreset mode is "same-step".

    Attributes:
        on: whether anything is looked at.
        keeps: whether episodes may be cut, so that `before` must be called before rows are sent.
        note: called with what an episode is about to be cut for, while its columns are as the env left them.
    """

    def __init__(self, engine: Engine, given: Any, rolls: bool) -> None:
        self.policies = Policies.parse(given)
        self._engine, self._batch, self._rolls = engine, engine.batch, rolls
        self._count = len(engine.batch)
        self._finder = Finder(engine.batch, self.policies, rolls)
        self.on, self.suspects = self._finder.on, self._finder.suspects
        self.keeps = self.on and "truncate" in (self.policies.obs, self.policies.reward)
        self.note: Callable[[NotFiniteError], object] | None = None
        self._held = _NOBODY
        self._warned: set[tuple[int, str]] = set()
        self._kept = [column.copy() for column in engine.batch.obs] if self.keeps else []
        """Observations before the op that is running, and the totals of their episodes."""
        self._totals = np.zeros(self._count), np.zeros(self._count, np.int64)
        self._options: dict[int, Any] = {}
        """Reset options of that op, should the episode have to be begun once more."""
        self._cut: set[int] = set()
        """Rows whose episode was ended here. Engines that write flags only where they change do not know of it."""
        self._cleared: list[tuple[int, float, int]] = []
        """Rows of which this was made good when they were last sent, and their totals."""
        self._again: dict[int, _Again] = {}
        self._tries: dict[int, int] = {}
        """How often rows were reset in the exchange that is running."""

    # --- for the front -----------------------------------------------------------------------------------------------

    def before(self, rows: Rows) -> None:
        """These rows are about to be sent: keep what they were. Called if `keeps`."""
        batch, where = self._batch, self._index(rows)
        for kept, column in zip(self._kept, batch.obs, strict=True):
            kept[where] = column[where]
        goes_on = ~(batch.terminated[where] | batch.truncated[where])
        self._totals[0][where] = np.where(goes_on, batch.episode_return[where], 0.0)
        self._totals[1][where] = batch.episode_length[where] * goes_on
        self._cleared = []
        if self._cut or self._again or self._options or self._tries or batch.options:
            self._forget(rows.tolist())

    def undo(self) -> None:
        """The rows of the last `before` were not sent after all."""
        for row, total, length in self._cleared:
            self._batch.truncated[row], self._batch.terminated[row] = True, False
            self._batch.episode_return[row], self._batch.episode_length[row] = total, length
            self._cut.add(row)
        self._cleared = []

    def hold(self, rows: Rows) -> None:
        """Let the next `recv` begin with these rows, which were run without it."""
        self._held = rows

    def drop(self) -> Rows:
        """Give up the rows that are held."""
        held, self._held = self._held, _NOBODY
        self._again.clear()
        return held

    def lose(self, rows: Sequence[int]) -> None:
        """The envs of these rows are gone: nothing of what is held of them is delivered."""
        lost = np.isin(self._held, rows)
        for row in self._held[lost].tolist():
            self._batch.mail.pop(row, None)
        self._held = self._held[~lost]
        for row in rows if self._again else ():
            self._again.pop(row, None)

    def pending(self, pending: Rows) -> Rows:
        """What the front waits for, where the engine says that these are pending."""
        return np.union1d(pending, self._held) if len(self._held) else pending

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        """As of engines; NotFiniteError leaves the other rows pending, as every EnvError does."""
        self._cleared = []
        while True:
            rows, rest = self._gather(count, timeout)
            unsent = [row for row in rows.tolist() if row in self._again] if self._again else []
            if unsent:  # an error or an interrupt came in between
                self._reset_again(unsent)
                continue
            if not self.suspects(rows):
                self._held = rest
                return rows
            findings = self._finder.findings(rows)
            self._held = np.concatenate([rows, rest])  # should a warning be an error, nothing is lost
            again = self._deal_with(findings)
            if not again:
                self._held = rest
                return rows
            self._reset_again(again)

    def look_at_rollout(self, out: Mapping[str, np.ndarray], rolled: np.ndarray) -> None:
        """Raise or warn for what is not finite in a rollout.

        Raises:
            NotFiniteError: names the first env, and has the rows of all.
        """
        found = list(self._finder.in_rollout(out, rolled))
        stops = [finding for finding in found if finding.policy == "error"]
        if stops:
            rows = tuple(sorted({finding.row for finding in stops}))
            raise self._finder.error(stops[0], "reset it, and look for its cause in the env", rows)
        for finding in found:
            self._warn_once(finding)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def _index(self, rows: Rows) -> Any:
        return slice(None) if len(rows) == self._count else rows

    def _gather(self, count: int, timeout: float | None) -> tuple[Rows, Rows]:
        """So many rows, those that are held first; and the held ones that are too many."""
        held = self._held
        if not len(held):
            rows = self._from_engine(count, timeout)
            return rows, _NOBODY
        everything = count == len(self.pending(self._engine.pending()))
        if count > len(held):
            held = np.concatenate([held, self._from_engine(count - len(held), timeout)])
            self._held = held
        rows, rest = held[:count], held[count:]
        return np.sort(rows) if everything else rows, rest

    def _from_engine(self, count: int, timeout: float | None) -> Rows:
        try:
            rows = self._engine.recv(count, timeout)
        except EnvError as error:
            if not isinstance(error, WorkerTimeout):
                self.lose(error.rows)
            raise
        for row in self._again.keys() & set(rows.tolist()) if self._again else ():
            self._complete(row, self._again.pop(row))
        return rows

    # --- dealing with it ---------------------------------------------------------------------------------------------

    def _deal_with(self, findings: list[Finding]) -> list[int]:
        """Raise, cut episodes, warn; returns the rows that must be reset now."""
        again: list[int] = []
        for finding in findings:
            if finding.policy == "error":
                self._fail(finding, "make(..., check_finite='truncate') would end its episode here and go on")
        for finding in findings:
            if finding.policy == "truncate":
                self._truncate(finding, again)
        for finding in findings:
            if finding.policy == "warn" and finding.row not in self._cut and finding.row not in again:
                self._warn_once(finding)
        return again

    def _fail(self, finding: Finding, fix: str) -> None:
        """Raise; the row is the front's again, as after every EnvError."""
        self._held = self._held[self._held != finding.row]
        self._batch.mail.pop(finding.row, None)
        self._tries.pop(finding.row, None)
        raise self._finder.error(finding, f"reset it, and look for its cause in the env; {fix}")

    def _warn_once(self, finding: Finding) -> None:
        if (finding.row, finding.name) in self._warned:
            return
        self._warned.add((finding.row, finding.name))
        advice = (
            "it is passed on; this is told once per env. Look for its cause in the env; "
            "make(..., check_finite='error') stops there, 'truncate' ends the episode, 'off' does not look"
        )
        warnings.warn(str(self._finder.error(finding, advice)), RuntimeWarning, stacklevel=_depth_of_user())

    def _truncate(self, finding: Finding, again: list[int]) -> None:
        batch, row = self._batch, finding.row
        cut_before = bool(batch.truncated[row]) and row in self._cut
        if row in again or (cut_before and not finding.first):
            return  # another finding has seen to it
        error = self._finder.error(finding, "")
        if self.note is not None:
            self.note(error)
        fault = Fault(error.phase or "step", type(error).__name__, str(error), "", None)
        told = {**fault.as_info(row, int(batch.restarts[row])), "field": finding.name}
        if error.recording is not None:
            told["recording"] = error.recording
        if finding.first:
            self._begin_again(finding, told, again)
        elif self._rolls and not (batch.terminated[row] or batch.truncated[row]):
            self._end(row)
            self._begin_again(finding, told, again)
        else:
            self._end(row)
            batch.mail.setdefault(row, Mail()).info["fault"] = told

    def _end(self, row: int) -> None:
        """Truncate the episode of a row, with the totals it had before this step."""
        batch = self._batch
        rolled = bool(batch.terminated[row] or batch.truncated[row])
        end_episode(batch, row, self._kept)
        batch.episode_return[row], batch.episode_length[row] = self._totals[0][row], self._totals[1][row]
        if self._rolls and not rolled:
            for name, column in batch.final_info.items():
                column[row] = batch.info[name][row]
            mail = batch.mail.pop(row, None)
            batch.mail[row] = Mail(final_info=mail.info if mail is not None else {})
        self._cut.add(row)

    def _begin_again(self, finding: Finding, told: dict[str, Any], again: list[int]) -> None:
        """Begin the row's episode once more, unless that was tried often enough; what ended before is kept."""
        batch, row = self._batch, finding.row
        self._tries[row] = self._tries.get(row, 0) + 1
        if self._tries[row] > RESTARTS:
            self._fail(finding, f"it was reset {RESTARTS} times in a row, and its first observation was never finite")
        mail = batch.mail.get(row)
        record = _Again(int(batch.op[row]), told if mail is None else mail.info.get("fault", told))
        if batch.terminated[row] or batch.truncated[row]:
            names = ("reward", "terminated", "truncated", "episode_return", "episode_length")
            record.columns = {name: getattr(batch, name)[row].item() for name in names}
            columns = [*batch.final_obs, *batch.final_info.values()]
            record.finals = [(column, np.copy(column[row]) if column.dtype != object else column[row])
                             for column in columns]  # fmt: skip
            record.final_info = None if mail is None else mail.final_info
        self._again[row] = record
        again.append(row)

    def _reset_again(self, rows: list[int]) -> None:
        """Begin episodes of rows that are held once more; later the engine brings them again."""
        batch = self._batch
        self._held = self._held[~np.isin(self._held, rows)]
        for row in rows:
            batch.mail.pop(row, None)
            batch.truncated[row] = batch.terminated[row] = False  # engines clear what they wrote themselves
            if row in self._options:
                batch.options[row] = self._options[row]
        batch.op[rows] = Op.RESET
        self._engine.send(np.array(sorted(rows), np.int64))

    def _complete(self, row: int, record: _Again) -> None:
        """A row that was reset again has begun its episode: tell what came before."""
        batch = self._batch
        mail = batch.mail.setdefault(row, Mail())
        batch.op[row] = record.op
        mail.info = {**mail.info, "fault": record.fault}
        if not record.columns:
            return
        mail.final_info = record.final_info or {}
        for name, value in record.columns.items():
            getattr(batch, name)[row] = value
        for column, value in record.finals:
            column[row] = value
        self._cut.add(row)

    def _forget(self, rows: list[int]) -> None:
        """Rows are sent: their flags and totals are the engine's again, whatever was written here."""
        batch = self._batch
        for row in self._cut.intersection(rows):
            if not batch.truncated[row]:
                continue  # `set_state` has replaced it
            self._cleared.append((row, batch.episode_return.item(row), batch.episode_length.item(row)))
            batch.truncated[row] = batch.terminated[row] = False
            batch.episode_return[row], batch.episode_length[row] = 0.0, 0
        self._cut.difference_update(rows)
        for row in rows:
            self._again.pop(row, None)
            self._tries.pop(row, None)
            self._options.pop(row, None)
            if row in batch.options:
                self._options[row] = batch.options[row]


def _depth_of_user() -> int:
    """The stack level of the first caller outside of this package, for a warning by the caller of this."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, depth = frame.f_back, depth + 1
    return depth
