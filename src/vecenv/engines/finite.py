"""A check around any engine that handles NaN and infinity before a user sees them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.batch import Mail, Op, Rows
from vecenv._batch.faults import RESTARTS, Fault
from vecenv._batch.finite import BatchFinder, Finding, Policies
from vecenv._batch.layout import Columns
from vecenv._util.warn import warn_user
from vecenv.engines import Engine
from vecenv.engines.decorator import Decorator
from vecenv.engines.python.restarts import end_episode
from vecenv.errors import ConfigError, EnvError, NotFiniteError, WorkerTimeout

_NO_ROWS: Rows = np.zeros(0, np.int64)


@dataclass
class _Again:
    """A row that is reset by the check: what is reported about it once its new episode has begun.

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


class FiniteCheck(Decorator):
    """Around an engine: handles what is not finite in its results.

    Rows that were received, but may not be handed out because of an error or because fewer were asked for, are held
    here; for the front they are pending.

    Args:
        engine: whose results are checked.
        given: what `make(check_finite=...)` takes.
        rolls: steps begin the next episode themselves: the autoreset mode is "same-step".

    Attributes:
        policies: what to do about observations and rewards.
        suspects: whether anything of the given rows is not finite.
        note: called with the error before an episode is truncated, while its columns are as the env left them.
    """

    def __init__(self, engine: Engine, given: Any, rolls: bool) -> None:
        super().__init__(engine)
        self.policies = Policies.parse(given)
        self._batch, self._rolls = engine.batch, rolls
        self._count = len(engine.batch)
        self._everyone: Rows = np.arange(self._count)
        self._finder = BatchFinder(engine.batch, self.policies, rolls)
        self.on, self.suspects = self._finder.on, self._finder.suspects
        self._truncates = self.on and "truncate" in (self.policies.obs, self.policies.reward)
        self.note: Callable[[NotFiniteError], object] | None = None
        self._only_rewards = self.policies.obs == "off"
        """Observations are not looked at."""
        self._held = _NO_ROWS
        """Rows that `inner` has given back and that were not handed out: no column records that."""
        self._kept = [column.copy() for column in engine.batch.obs] if self._truncates else []
        """Observations before the op that is running, and the totals of their episodes."""
        self._totals = np.zeros(self._count), np.zeros(self._count, np.int64)
        self._options: dict[int, Any] = {}
        """Reset options of that op, in case the episode has to begin once more."""
        self._again: dict[int, _Again] = {}
        self._tries: dict[int, int] = {}
        """How often rows were reset in the exchange that is running."""

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        if self._truncates:
            self._before(rows)
        self.inner.send(rows)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        """As of engines; NotFiniteError leaves the other rows pending, as every EnvError does."""
        while True:
            if len(self._held):
                rows, rest = self._gather(count, timeout)
            else:
                rows, rest = self._from_engine(count, timeout), _NO_ROWS
            unsent = [row for row in rows.tolist() if row in self._again] if self._again else []
            if unsent:  # an error or an interrupt came in between
                self._reset_again(unsent)
                continue
            if not self.suspects(rows):
                self._held = rest
                return rows
            findings = self._finder.findings(rows)
            self._held = np.concatenate([rows, rest])  # nothing is lost if a warning is raised as an error
            again = self._handle(findings)
            if not again:
                self._held = rest
                return rows
            self._reset_again(again)

    def pending(self) -> Rows:
        """As of engines, with the rows that are held."""
        pending = self.inner.pending()
        return np.union1d(pending, self._held) if len(self._held) else pending

    def held(self) -> int:
        return super().held() + len(self._held)

    def discard(self) -> None:
        super().discard()
        self._held = _NO_ROWS

    def gone(self) -> Rows:
        """As of engines; what is held of rows that are gone is not delivered."""
        gone = np.setdiff1d(self.inner.gone(), self.inner.pending())
        self._lose(gone.tolist())
        return gone

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """As of engines. If something is not finite, all rows are handled as if `recv` had just got them."""
        if self._truncates:
            self._before(self._everyone)
        ended = self.inner.exchange_all(alive, over, rotate)
        if self._only_rewards and self.inner.rewards_are_finite:
            return ended
        if ended >= 0 and self.suspects(self._everyone):
            self._held = self._everyone
            self.recv(self._count)
        return ended

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """As of engines. Raises ConfigError if a policy is "truncate", which native code cannot do.

        A NotFiniteError names the first env, and has the rows of all. All rows have moved on.
        """
        if self._truncates:
            raise ConfigError(
                "rollout runs in native code, which cannot end an episode that goes non-finite; make the envs with "
                "check_finite='error', 'warn' or 'off'"
            )
        out = self.inner.rollout(actions, steps, alive, over, policy, streams)
        ended = out["TERMINATED"] | out["TRUNCATED"]
        found = list(self._finder.in_rollout(out, ended if self._rolls else np.zeros_like(ended)))
        stops = [finding for finding in found if finding.policy == "error"]
        if stops:
            rows = tuple(sorted({finding.row for finding in stops}))
            raise self._finder.error_of_row(stops[0], "reset it, and look for its cause in the env", rows)
        self.warnings += [self._warning(finding) for finding in found if self._finder.is_new(finding)]
        return out

    def redecorator(self) -> Callable[[Engine], Engine]:
        return functools.partial(FiniteCheck, given=self.policies, rolls=self._rolls)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _before(self, rows: Rows) -> None:
        """Keep what these rows are, before they are sent."""
        batch, where = self._batch, self._index(rows)
        for kept, column in zip(self._kept, batch.obs, strict=True):
            kept[where] = column[where]
        goes_on = ~(batch.terminated[where] | batch.truncated[where])
        self._totals[0][where] = np.where(goes_on, batch.episode_return[where], 0.0)
        self._totals[1][where] = batch.episode_length[where] * goes_on
        for row in rows.tolist() if self._again or self._options or self._tries or batch.options else ():
            self._again.pop(row, None)
            self._tries.pop(row, None)
            self._options.pop(row, None)
            if row in batch.options:
                self._options[row] = batch.options[row]

    def _lose(self, rows: Sequence[int]) -> None:
        """Deliver nothing of what is held of these rows: their envs are gone."""
        lost = np.isin(self._held, rows)
        for row in self._held[lost].tolist():
            self._batch.mail.pop(row, None)
        self._held = self._held[~lost]
        for row in rows if self._again else ():
            self._again.pop(row, None)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def _index(self, rows: Rows) -> Any:
        return ... if len(rows) == self._count else rows

    def _gather(self, count: int, timeout: float | None) -> tuple[Rows, Rows]:
        """`count` rows, those that are held first; and the held rows beyond them."""
        held = self._held
        everything = count == len(self.pending())
        if count > len(held):
            held = np.concatenate([held, self._from_engine(count - len(held), timeout)])
            self._held = held
        rows, rest = held[:count], held[count:]
        return np.sort(rows) if everything else rows, rest

    def _from_engine(self, count: int, timeout: float | None) -> Rows:
        try:
            rows = self.inner.recv(count, timeout)
        except EnvError as error:
            if not isinstance(error, WorkerTimeout):
                self._lose(error.rows)
            raise
        for row in self._again.keys() & set(rows.tolist()) if self._again else ():
            self._complete(row, self._again.pop(row))
        return rows

    # --- handling findings -------------------------------------------------------------------------------------------

    def _handle(self, findings: list[Finding]) -> list[int]:
        """Raise, truncate episodes, warn; return the rows that must be reset now."""
        cut: set[int] = set()
        again: list[int] = []
        for finding in findings:
            if finding.policy == "error":
                self._fail(finding, "make(..., check_finite='truncate') would end its episode here and go on")
        for finding in findings:
            if finding.policy == "truncate":
                self._truncate(finding, cut, again)
        for finding in findings:
            if finding.policy == "warn" and finding.row not in cut and finding.row not in self._tries:
                self._warn_once(finding)
        return again

    def _fail(self, finding: Finding, fix: str) -> None:
        """Raise; the row is the front's again, as after every EnvError."""
        self._held = self._held[self._held != finding.row]
        self._batch.mail.pop(finding.row, None)
        self._tries.pop(finding.row, None)
        raise self._finder.error_of_row(finding, f"reset it, and look for its cause in the env; {fix}")

    def _warn_once(self, finding: Finding) -> None:
        if self._finder.is_new(finding):
            warn_user(self._warning(finding))

    def _warning(self, finding: Finding) -> str:
        advice = (
            "it is passed on; this warning comes once per env. Look for its cause in the env; "
            "make(..., check_finite='error') stops there, 'truncate' ends the episode, 'off' does not look"
        )
        return str(self._finder.error_of_row(finding, advice))

    def _truncate(self, finding: Finding, cut: set[int], again: list[int]) -> None:
        """End the episode of a row, and add it to `cut`; if its next one must begin anew, add it to `again`."""
        batch, row = self._batch, finding.row
        if row in again or (row in cut and not finding.first):
            return  # handled for another finding
        error = self._finder.error_of_row(finding, "")
        if self.note is not None:
            self.note(error)
        fault = Fault(error.phase or "step", type(error).__name__, str(error), "", None)
        ended = not finding.first and int(batch.op[row]) != int(Op.RESET)
        reported = {**fault.as_info(row, int(batch.restarts[row]), ended), "field": finding.name}
        if error.recording is not None:
            reported["recording"] = error.recording
        rolled = bool(batch.terminated[row] or batch.truncated[row])
        if not finding.first:
            cut.add(row)
            self._end(row, rolled)
        if finding.first or (self._rolls and not rolled):
            self._begin_again(finding, reported)
            again.append(row)
        else:
            batch.mail.setdefault(row, Mail()).info["fault"] = reported

    def _end(self, row: int, rolled: bool) -> None:
        """Truncate the episode of a row, with the totals it had before this step."""
        batch = self._batch
        end_episode(batch, row, self._kept)
        batch.episode_return[row], batch.episode_length[row] = self._totals[0][row], self._totals[1][row]
        if self._rolls and not rolled:
            for name, column in batch.final_info.items():
                column[row] = batch.info[name][row]
            mail = batch.mail.pop(row, None)
            batch.mail[row] = Mail(final_info=mail.info if mail is not None else {})

    def _begin_again(self, finding: Finding, reported: dict[str, Any]) -> None:
        """Begin the row's episode once more, unless that was tried often enough; what ended before is kept."""
        batch, row = self._batch, finding.row
        self._tries[row] = self._tries.get(row, 0) + 1
        if self._tries[row] > RESTARTS:
            self._fail(finding, f"it was reset {RESTARTS} times in a row, and its first observation was never finite")
        mail = batch.mail.get(row)
        record = _Again(int(batch.op[row]), reported if mail is None else mail.info.get("fault", reported))
        if batch.terminated[row] or batch.truncated[row]:
            names = ("reward", "terminated", "truncated", "episode_return", "episode_length")
            record.columns = {name: getattr(batch, name)[row].item() for name in names}
            columns = [*batch.final_obs, *batch.final_info.values()]
            record.finals = [(column, np.copy(column[row]) if column.dtype != object else column[row])
                             for column in columns]  # fmt: skip
            record.final_info = None if mail is None else mail.final_info
        self._again[row] = record

    def _reset_again(self, rows: list[int]) -> None:
        """Begin episodes of rows that are held once more; later the engine brings them again."""
        batch = self._batch
        self._held = self._held[~np.isin(self._held, rows)]
        for row in rows:
            batch.mail.pop(row, None)
            if row in self._options:
                batch.options[row] = self._options[row]
        batch.op[rows] = Op.RESET
        self.inner.send(np.array(sorted(rows), np.int64))

    def _complete(self, row: int, record: _Again) -> None:
        """A row that was reset again has begun its episode: put back the results of what came before."""
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
