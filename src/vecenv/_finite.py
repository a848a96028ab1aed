"""NaN and infinity in what envs return: found in the front, whichever engine ran them, before a user sees them."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from vecenv._batch import Mail, Op, Rows
from vecenv._faults import RESTARTS, Fault
from vecenv._seeding import NO_SEED
from vecenv.engines import Engine, SupportsEnd
from vecenv.errors import ConfigError, EnvError, NotFiniteError

Policy = Literal["error", "truncate", "warn", "off"]
POLICIES: tuple[Policy, ...] = ("error", "truncate", "warn", "off")
_NOBODY: Rows = np.zeros(0, np.int64)
_HERE = os.path.dirname(__file__) + os.sep


def all_finite(array: np.ndarray) -> bool:
    """Whether there is neither NaN nor infinity in an array of floats."""
    return 0 not in np.isfinite(array).tobytes()  # several times faster than all()


def unfit_rows(column: np.ndarray, infinity: bool = True) -> np.ndarray:
    """Where, along the first axis, there is NaN, or infinity if it counts: a bool array."""
    unfit = ~np.isfinite(column) if infinity else np.isnan(column)
    return unfit.reshape(len(column), -1).any(axis=1)


@dataclass(frozen=True)
class Policies:
    """What to do about observations and about rewards."""

    obs: Policy = "off"
    reward: Policy = "warn"

    @classmethod
    def parse(cls, given: Any) -> Policies:
        """Read what `make(check_finite=...)` takes."""
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        if isinstance(given, str):
            return cls(_policy(given), _policy(given))
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"check_finite must be one of {', '.join(map(repr, POLICIES))}, or a mapping of 'obs' and 'reward' to "
                f"these, got {given!r:.60}"
            )
        for name in given.keys() - {"obs", "reward"}:
            raise ConfigError(f"check_finite has the key {name!r:.40}; there are 'obs' and 'reward'")
        return cls(**{name: _policy(policy) for name, policy in given.items()})


def _policy(name: Any) -> Policy:
    if name not in POLICIES:
        near = difflib.get_close_matches(str(name), POLICIES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"check_finite must be one of {', '.join(map(repr, POLICIES))}, got {name!r:.40}{hint}")
    return name


@dataclass(frozen=True, eq=False)
class _Finding:
    """Something that is not finite.

    Attributes:
        row: of the env.
        name: "reward", or "obs" or "final_obs" with the path of the leaf.
        value: what it is.
        policy: what to do about it.
        first: it is in the first observation of an episode.
    """

    row: int
    name: str
    value: Any
    policy: Policy
    first: bool


@dataclass
class _Again:
    """A row that is reset by the front: what is to be told of it once its new episode has begun.

    Attributes:
        fault: as `info["fault"]`.
        columns: of the episode that ended before, by the name of the column; empty if none did.
        finals: final observations and final infos of it.
        final_info: its last info.
    """

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
    """

    def __init__(self, engine: Engine, given: Any, rolls: bool) -> None:
        self.policies = Policies.parse(given)
        self._engine, self._batch, self._rolls = engine, engine.batch, rolls
        self._count = len(engine.batch)
        layout = engine.batch.observation_layout
        looks = self.policies.obs != "off"
        self._floats = [k for k, leaf in enumerate(layout.leaves) if looks and leaf.dtype.kind == "f"]
        self._by_value = list(layout.by_value) if looks else []
        self._paths = [f".{leaf.path}" if leaf.path else "" for leaf in layout.leaves]
        self._looks_at_obs = bool(self._floats or self._by_value)
        self._looks_at_reward = self.policies.reward != "off"
        self.on = self._looks_at_obs or self._looks_at_reward
        self.keeps = self.on and "truncate" in (self.policies.obs, self.policies.reward)
        self.recv = self._recv if self.on else engine.recv
        self._held = _NOBODY
        self._warned: set[tuple[int, str]] = set()
        self._kept = [column.copy() for column in engine.batch.obs] if self.keeps else []
        """Observations before the op that is running, and the totals of their episodes."""
        self._totals = np.zeros(self._count), np.zeros(self._count, np.int64)
        self._options: dict[int, Any] = {}
        """Reset options of that op, should the episode have to be begun once more."""
        self._cut: set[int] = set()
        """Rows whose episode was ended here: engines that write flags only where they change do not know of it."""
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

    def suspects(self, rows: Rows) -> bool:
        """Whether anything of these rows is not finite."""
        batch, where = self._batch, self._index(rows)
        if self._looks_at_reward and not all_finite(batch.reward[where]):
            return True
        if not self._looks_at_obs:
            return False
        if not self._are_finite(batch.obs, where):
            return True
        if not self._rolls:
            return False
        ended = rows[batch.terminated[where] | batch.truncated[where]]
        return len(ended) > 0 and not self._are_finite(batch.final_obs, ended)

    def hold(self, rows: Rows) -> None:
        """Let the next `recv` begin with these rows, which were run without it."""
        self._held = rows

    def drop(self) -> Rows:
        """Give up the rows that are held."""
        held, self._held = self._held, _NOBODY
        self._again.clear()
        return held

    def pending(self, pending: Rows) -> Rows:
        """What the front waits for, where the engine says that these are pending."""
        return np.union1d(pending, self._held) if len(self._held) else pending

    def _recv(self, count: int, timeout: float | None = None) -> Rows:
        """As of engines; NotFiniteError leaves the other rows pending, as every EnvError does."""
        while True:
            rows, rest = self._gather(count, timeout)
            if not self.suspects(rows):
                self._held = rest
                return rows
            findings = self._findings(rows)
            self._held = np.concatenate([rows, rest])  # should a warning be an error, nothing is lost
            again = self._deal_with(findings)
            if not again:
                self._held = rest
                return rows
            self._held = self._held[~np.isin(self._held, again)]
            self._send_again(again)

    def look_at_rollout(self, out: Mapping[str, np.ndarray], rolled: np.ndarray) -> None:
        """Raise or warn for what is not finite in columns [T, N, ...] of a rollout, as the compiled engine names them.

        Raises:
            NotFiniteError: names the first env, and has the rows of all.
        """
        found = [("reward", "REWARD", self.policies.reward, None)] if self._looks_at_reward else []
        for k in self._floats:
            found += [(f"final_obs{self._paths[k]}", f"F_{k}", self.policies.obs, rolled)] if f"F_{k}" in out else []
            found += [(f"obs{self._paths[k]}", f"O_{k}", self.policies.obs, None)]
        for name, slot, policy, where in found:
            column = out[slot]
            if all_finite(column):
                continue
            unfit = unfit_rows(column.reshape(-1, *column.shape[2:])).reshape(column.shape[:2])
            unfit = unfit if where is None else unfit & where
            rows = np.flatnonzero(unfit.any(axis=0))
            for row in rows.tolist():
                step = int(unfit[:, row].argmax())
                finding = _Finding(row, name, np.array(column[step, row])[()], policy, False)
                when = f"step {step} of the rollout"
                if policy == "error":
                    raise self._error(
                        finding, "reset it, and look for its cause in the env", tuple(rows.tolist()), when
                    )
                self._warn_once(finding, when)

    # --- finding -----------------------------------------------------------------------------------------------------

    def _index(self, rows: Rows) -> Any:
        return slice(None) if len(rows) == self._count else rows

    def _gather(self, count: int, timeout: float | None) -> tuple[Rows, Rows]:
        """So many rows, those that are held first; and the held ones that are too many."""
        held = self._held
        if not len(held):
            rows = self._from_engine(count, timeout)
            return rows, _NOBODY
        everything = count == len(self.pending(self._engine.pending()))  # type: ignore[attr-defined]  # all have it
        if count > len(held):
            held = np.concatenate([held, self._from_engine(count - len(held), timeout)])
            self._held = held
        rows, rest = held[:count], held[count:]
        return np.sort(rows) if everything else rows, rest

    def _from_engine(self, count: int, timeout: float | None) -> Rows:
        try:
            rows = self._engine.recv(count, timeout)
        except EnvError as error:
            for row in error.rows if self._again else ():
                self._again.pop(row, None)
            raise
        for row in self._again.keys() & set(rows.tolist()) if self._again else ():
            self._complete(row, self._again.pop(row))
        return rows

    def _are_finite(self, columns: list[np.ndarray], where: Any) -> bool:
        for leaf in self._floats:
            if not all_finite(columns[leaf][where]):
                return False
        return all(_is_finite(value) for leaf in self._by_value for value in columns[leaf][where])

    def _findings(self, rows: Rows) -> list[_Finding]:
        """All that is not finite, row by row; what ended an episode comes before what began the next."""
        batch, found = self._batch, []
        done = batch.terminated[rows] | batch.truncated[rows]
        if self._rolls and done.any():
            found += self._in_obs("final_obs", batch.final_obs, rows[done], np.zeros(int(done.sum()), np.bool_))
        if self._looks_at_reward:
            bad = rows[~np.isfinite(batch.reward[rows])]
            found += [
                _Finding(row, "reward", batch.reward.item(row), self.policies.reward, False) for row in bad.tolist()
            ]
        first = done if self._rolls else np.zeros(len(rows), np.bool_)
        found += self._in_obs("obs", batch.obs, rows, first | (~done & (batch.episode_length[rows] == 0)))
        return sorted(found, key=lambda finding: finding.row)

    def _in_obs(self, name: str, columns: list[np.ndarray], rows: Rows, first: np.ndarray) -> Iterable[_Finding]:
        for leaf in sorted(self._floats + self._by_value):
            column = columns[leaf][rows]
            if leaf in self._by_value:
                unfit = np.array([not _is_finite(value) for value in column])
            else:
                unfit = unfit_rows(column)
            for place in np.flatnonzero(unfit).tolist():
                value = np.array(column[place]) if leaf in self._floats else column[place]
                yield _Finding(int(rows[place]), name + self._paths[leaf], value, self.policies.obs, bool(first[place]))

    # --- dealing with it ---------------------------------------------------------------------------------------------

    def _deal_with(self, findings: list[_Finding]) -> list[int]:
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

    def _fail(self, finding: _Finding, fix: str) -> None:
        """Raise; the row is the front's again, as after every EnvError."""
        self._held = self._held[self._held != finding.row]
        self._batch.mail.pop(finding.row, None)
        self._tries.pop(finding.row, None)
        raise self._error(finding, f"reset it, and look for its cause in the env; {fix}")

    def _warn_once(self, finding: _Finding, when: str = "") -> None:
        if (finding.row, finding.name) in self._warned:
            return
        self._warned.add((finding.row, finding.name))
        advice = (
            "it is passed on; this is told once per env. Look for its cause in the env; "
            "make(..., check_finite='error') stops there, 'truncate' ends the episode, 'off' does not look"
        )
        warnings.warn(str(self._error(finding, advice, when=when)), RuntimeWarning, stacklevel=_depth_of_user())

    def _error(self, finding: _Finding, fix: str, rows: tuple[int, ...] = (), when: str = "") -> NotFiniteError:
        batch, row = self._batch, finding.row
        seed = int(batch.last_seed[row])
        return NotFiniteError(
            finding.name,
            row=row,
            value=finding.value,
            seed=None if seed == NO_SEED else seed,
            step=0 if finding.first else int(batch.episode_length[row]),
            phase="reset" if finding.first else "step",
            action=None if finding.first else self._action(row),
            rows=rows or (row,),
            when=when,
            fix=fix,
        )

    def _action(self, row: int) -> Any:
        return self._batch.action_layout.reader([column.copy() for column in self._batch.actions])(row)

    def _truncate(self, finding: _Finding, again: list[int]) -> None:
        batch, row = self._batch, finding.row
        cut_before = bool(batch.truncated[row]) and row in self._cut
        if row in again or (cut_before and not finding.first):
            return  # another finding has seen to it
        error = self._error(finding, "")
        fault = Fault(error.phase or "step", type(error).__name__, str(error), "", None)
        told = {**fault.as_info(row, int(batch.restarts[row])), "field": finding.name}
        if finding.first:
            self._begin_again(finding, told, again)
        elif self._rolls and not (batch.terminated[row] or batch.truncated[row]):
            self._end(row)
            self._begin_again(finding, told, again)
        else:
            self._end(row)
            for kept, column in zip(self._kept, batch.final_obs if self._rolls else batch.obs, strict=True):
                column[row] = kept[row]
            batch.mail.setdefault(row, Mail()).info["fault"] = told

    def _end(self, row: int) -> None:
        """Truncate the episode of a row, with the totals it had before this step."""
        batch = self._batch
        rolled = bool(batch.terminated[row] or batch.truncated[row])
        batch.reward[row], batch.terminated[row], batch.truncated[row] = 0.0, False, True
        batch.episode_return[row], batch.episode_length[row] = self._totals[0][row], self._totals[1][row]
        if self._rolls and not rolled:
            pairs = [*zip(batch.final_obs, self._kept, strict=True)]
            pairs += [(column, batch.info[name]) for name, column in batch.final_info.items()]
            for final, last in pairs:
                final[row] = last[row]
            mail = batch.mail.pop(row, None)
            batch.mail[row] = Mail(final_info=mail.info if mail is not None else {})
        self._mark(row)

    def _mark(self, row: int) -> None:
        self._cut.add(row)
        if isinstance(self._engine, SupportsEnd):
            self._engine.end(np.array([row]))

    def _begin_again(self, finding: _Finding, told: dict[str, Any], again: list[int]) -> None:
        """Begin the row's episode once more, unless that was tried often enough; what ended before is kept."""
        batch, row = self._batch, finding.row
        self._tries[row] = self._tries.get(row, 0) + 1
        if self._tries[row] > RESTARTS:
            self._fail(finding, f"it was reset {RESTARTS} times in a row, and its first observation was never finite")
        record = _Again(told)
        if batch.terminated[row] or batch.truncated[row]:
            names = ("reward", "terminated", "truncated", "episode_return", "episode_length")
            record.columns = {name: getattr(batch, name)[row].item() for name in names}
            columns = [*batch.final_obs, *batch.final_info.values()]
            record.finals = [(column, np.copy(column[row]) if column.dtype != object else column[row])
                             for column in columns]  # fmt: skip
            mail = batch.mail.get(row)
            record.final_info = None if mail is None else mail.final_info
        self._again[row] = record
        again.append(row)

    def _send_again(self, rows: list[int]) -> None:
        batch = self._batch
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
        mail.info = {**mail.info, "fault": record.fault}
        if not record.columns:
            return
        mail.final_info = record.final_info or {}
        for name, value in record.columns.items():
            getattr(batch, name)[row] = value
        for column, value in record.finals:
            column[row] = value
        self._mark(row)

    def _forget(self, rows: list[int]) -> None:
        """Rows are sent: their flags and totals are the engine's again, whatever was written here."""
        batch = self._batch
        for row in self._cut.intersection(rows):
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


def _is_finite(value: Any) -> bool:
    """Whether all numbers in a value without a fixed size are finite."""
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (tuple, list)):
        return all(map(_is_finite, value))
    if isinstance(value, (float, np.floating)) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return all_finite(np.asarray(value))
    return True


def _depth_of_user() -> int:
    """The stack level of the first caller outside of this package, for a warning by the caller of this."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, depth = frame.f_back, depth + 1
    return depth
