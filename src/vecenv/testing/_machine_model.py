"""A model of the envs: counters per env, and which calls are possible."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch.batch import Op
from vecenv.errors import NothingPendingError, NotResetError, PendingError, SpaceError, VecenvError
from vecenv.testing._obedient_env import EXIT, RAISE, SLOW

UNKNOWN = float("nan")
Block = tuple[int, ...]
"""Envs that share a process."""


@dataclass
class Work:
    """A request to an env whose result was not returned yet."""

    op: Op
    action: int = 0
    seed: int | None = None
    to_the_dead: bool = False
    """The process was dead before the request."""
    unsure: bool = False
    """An interrupt came, so it is unknown whether the request was made."""

    def is_order(self, order: int) -> bool:
        """Whether the env will get this action."""
        return self.op is not Op.RESET and self.action == order


@dataclass
class Shown:
    """The expected results of one env; NaN is unknown."""

    obs: list[float]
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    final_obs: list[float] | None = None
    final_info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Row:
    """The counters of one LawEnv. After an interrupt only a range of its episode number is known."""

    index: int
    low: int = 0
    high: int = 0
    step: int = 0
    last: int = -1
    random: np.random.Generator | None = None
    """None: unknown."""
    bonus: float = 0.0
    paid: float = 0.0
    done: bool = False
    ready: bool = False
    seen: bool = False
    may_be_new: bool = False
    """It may have been killed and built again; `young` is the number of episodes it has begun in that case."""
    young: int = 0
    total: float = 0.0
    """Sum of the rewards of its episode; `length` is their number. After the last step, those of the ended episode."""
    length: int = 0
    obs: Sequence[float] = ()
    """The last observation that was returned."""

    def run(self, work: Work) -> Shown:
        """Run the next op; return the expected results."""
        if work.op is Op.RESET:
            return self._begin(work.seed)
        shown = self._step(work.action)
        if work.op is Op.ROLL and self.done:
            new = self._begin(None)
            new.reward, new.terminated, new.truncated = shown.reward, shown.terminated, shown.truncated
            new.final_obs, new.final_info = shown.obs, shown.info
            self.done = True
            return new
        return shown

    def gained(self, work: Work, reward: float, first: bool) -> None:
        """Add a reward that was returned; `first`: the previous one ended an episode."""
        if work.op is Op.RESET:
            self.total, self.length = 0.0, 0
        else:
            self.total, self.length = (reward, 1) if first else (self.total + reward, self.length + 1)

    def renew(self) -> None:
        """The process is gone; the next request builds a new env."""
        self.__dict__.update(Row(self.index, seen=self.seen).__dict__)

    def loosen(self, work: Work | None) -> None:
        """The request may have been run completely, partly or not at all."""
        begun = work is not None and work.op is not Op.STEP
        self.high, self.young = self.high + begun, self.young + begun
        self.random, self.ready = None, False

    def suspect(self) -> None:
        """The env may have been killed and built again."""
        self.young = self.young if self.may_be_new else 0
        self.may_be_new, self.random = True, None

    def saw(self, obs: np.ndarray) -> str | None:
        """Set the episode number from the first observation of an episode; return what is wrong with it, or None."""
        episode = int(obs[1])
        old, new = self.low <= episode <= self.high, self.may_be_new and 1 <= episode <= self.young
        if not old and not new:
            return f"episode {episode} of env {self.index}, which must be in {self.low} ... {self.high}"
        if new:
            self.bonus = self.paid = UNKNOWN if old and self.bonus else 0.0
        self.low = self.high = episode
        self.may_be_new = False
        return None

    def _begin(self, seed: int | None) -> Shown:
        self.low, self.high, self.young = self.low + 1, self.high + 1, self.young + 1
        self.step, self.last, self.paid, self.done = 0, -1, self.bonus, False
        if seed is not None:
            self.random = np.random.Generator(np.random.PCG64(seed))
        return Shown(self._observed(), info={"began": self._episode()})

    def _step(self, action: int) -> Shown:
        self.step, self.last = self.step + 1, action
        obs = self._observed()
        self.done = self.step >= 3 + self.index
        odd = self.low % 2 == 1
        info = {"ended": self.low} if self.done else {}
        return Shown(obs, self._draw() + self.paid, self.done and not odd, self.done and odd, info)

    def _observed(self) -> list[float]:
        return [self.index, self._episode(), self.step, self._draw(), self.last]

    def _episode(self) -> float:
        return self.low if self.low == self.high and not self.may_be_new else UNKNOWN

    def _draw(self) -> float:
        return UNKNOWN if self.random is None else self.random.random()


class Model:
    """All envs, pending requests, and possible calls: each `refuse_...` is the error a call must raise, or None."""

    def __init__(self, count: int, mode: str, blocks: Sequence[Block]) -> None:
        self.count, self.mode, self.blocks = count, mode, list(blocks)
        self.rows = [Row(index) for index in range(count)]
        self.pending: dict[int, Work] = {}
        self.broken = False
        """An error left results that were not received: `reset` may discard them."""
        self.impatient = False
        """A call timed out: `reset` does not wait again, and kills the worker."""
        self.dead: set[Block] = set()
        """Blocks whose process was killed, before any call noticed."""
        self.gone: set[Block] = set()
        """Blocks that are known to be dead and were not built again."""
        self.perhaps: set[Block] = set()
        """Dead blocks that the vector env may or may not have noticed."""
        self.unheard: set[Block] = set()
        """Killed blocks that a call may have noticed when an interrupt came before it could report them."""

    def refuse_idle(self) -> type[VecenvError] | None:
        return PendingError if self.pending else None

    def refuse_call(self) -> type[VecenvError] | None:
        return self.refuse_idle() or (NotResetError if self.gone else None)

    def refuse_step(self, ids: Sequence[int] | None, *, partial: bool = False) -> type[VecenvError] | None:
        """For `step`; with `partial` for `send`, which may be called while others are pending."""
        chosen = range(self.count) if ids is None else ids
        if self.pending and (ids is None or not partial or any(row in self.pending for row in chosen)):
            return PendingError
        if not all(self.rows[row].ready for row in chosen):
            return NotResetError
        if self.mode == "disabled" and any(self.rows[row].done for row in chosen):
            return NotResetError
        return None

    def refuse_reset(self, mask: Sequence[int] | None) -> type[VecenvError] | None:
        if self.pending and (not self.broken or mask is not None):
            return PendingError
        chosen = range(self.count) if mask is None else mask
        return None if all(row.seen or row.index in chosen for row in self.rows) else NotResetError

    def refuse_recv(self, count: int | None) -> type[VecenvError] | None:
        if not self.pending:
            return NothingPendingError
        return None if count is None or 1 <= count <= len(self.pending) else SpaceError

    def plan_step(self, ids: Sequence[int], actions: Sequence[int]) -> dict[int, Work]:
        """The requests of a step of these envs."""
        return {
            row: Work(self._op(self.rows[row]), action, to_the_dead=self._is_dead(row))
            for row, action in zip(ids, actions, strict=True)
        }

    def plan_reset(self, ids: Iterable[int], seed: int | None) -> dict[int, Work]:
        """The requests of a reset of these envs."""
        return {
            row: Work(Op.RESET, seed=None if seed is None else seed + row, to_the_dead=self._is_dead(row))
            for row in ids
        }

    def sent(self, work: dict[int, Work]) -> None:
        """These requests were sent. A reset builds envs again that are known to be gone."""
        if not self.pending:
            self.broken = self.impatient = False
        self.pending.update(work)
        self.gone = {block for block in self.gone if not any(row in work for row in block)}

    def delivered(self, row: int, obs: np.ndarray) -> None:
        """The env's result was returned; it is ready again."""
        counters = self.rows[row]
        counters.ready = counters.seen = True
        counters.obs = obs.tolist()
        self.perhaps = {block for block in self.perhaps if row not in block}
        self.settle()

    def settle(self) -> None:
        """When nothing is pending, no error is left over."""
        if not self.pending:
            self.broken = self.impatient = False

    def failed(self, row: int) -> None:
        """The env raised; the others are still pending."""
        del self.pending[row]
        self.rows[row].ready = False
        self.broken = bool(self.pending)

    def struck(self, row: int) -> None:
        """An interrupt came while this env was running."""
        self.rows[row].loosen(self.pending.pop(row, None))
        self.broken = bool(self.pending)

    def died(self, block: Block) -> None:
        """A process is known to be dead."""
        for row in block:
            self.pending.pop(row, None)
            self.rows[row].renew()
        for blocks in (self.dead, self.perhaps, self.unheard):
            blocks.discard(block)
        self.gone.add(block)
        self.broken = bool(self.pending)

    def may_die(self, block: Block) -> bool:
        """Whether this block's process was killed, or had an order to end itself."""
        return block in self.dead | self.perhaps or any(
            row in self.pending and self.pending[row].is_order(EXIT) for row in block
        )

    def must_raise(self, row: int) -> bool:
        return row in self.pending and self.pending[row].is_order(RAISE)

    def lose(self, *, certainly: bool) -> None:
        """A reset discards what is pending, or may have begun to: which processes end because of their requests?"""
        for block in self.blocks:
            waiting = [self.pending[row] for row in block if row in self.pending]
            exits = [work for work in waiting if work.is_order(EXIT)]
            killed = block in self.dead and (waiting or block in self.unheard)
            if killed or any(not work.unsure for work in exits):
                self.died(block)
                if killed or not certainly:
                    self.perhaps.add(block)
            elif exits or (self.impatient and any(work.is_order(SLOW) for work in waiting)):
                for row in block:
                    self.rows[row].suspect()

    def discard(self) -> None:
        """A reset discards what is pending; processes that are still running a request may be killed."""
        self.lose(certainly=True)
        doubtful = {row for block in self.perhaps for row in block}
        for row, work in self.pending.items():
            if work.unsure or row in doubtful:
                self.rows[row].loosen(work)
            elif not work.is_order(RAISE):
                self.rows[row].run(work)
        self.pending = {}
        self.settle()

    def copies(self, rows: Iterable[int]) -> dict[int, Row]:
        """Copies of the counters of these envs."""
        return {row: copy.deepcopy(self.rows[row]) for row in rows}

    def _op(self, row: Row) -> Op:
        if self.mode == "same-step":
            return Op.ROLL
        return Op.RESET if self.mode == "next-step" and row.done else Op.STEP

    def _is_dead(self, row: int) -> bool:
        return any(row in block for block in self.dead)
