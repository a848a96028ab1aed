"""The state machine that calls a vector env in random order."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from vecenv.errors import (
    ClosedError,
    ConfigError,
    NotResetError,
    PendingError,
    SpaceError,
    UnsupportedError,
    VecenvError,
)
from vecenv.testing._interrupting import Interrupted
from vecenv.testing._laws import law
from vecenv.testing._machine_calls import COUNT, EVERYONE, Calls, agree
from vecenv.testing._machine_model import UNKNOWN, Work
from vecenv.testing._obedient_env import EXIT, RAISE, SLOW
from vecenv.testing._remains import is_alive

_ACTION = st.sampled_from([*(0, 1, 2) * 8, RAISE, SLOW, EXIT])
ACTIONS = st.lists(_ACTION, min_size=COUNT, max_size=COUNT)
IDS = st.none() | st.lists(st.sampled_from(EVERYONE), min_size=1, max_size=COUNT, unique=True)
SEED = st.none() | st.integers(0, 1000)
HURRY = st.sampled_from([False, False, False, True])
MOMENT = st.floats(-5.5, -1.5).map(lambda exponent: 10**exponent)
"""When an interrupt comes: after 3 us to 30 ms."""
CALLS = st.sampled_from(["step", "reset", "send", "recv"])
WAYS = st.sampled_from(["recv", "reset", "step"])


class Machine(Calls):
    """Any call at any time. Rules have no preconditions: the model says what a call must return.

    Random choices never depend on results, so a run can be repeated although processes differ in speed.
    """

    @initialize(mode=st.integers(0, 2), begun=st.sampled_from([True] * 7 + [False]))
    def build(self, mode: int, begun: bool) -> None:
        """Make the vector env and find out which envs share a process."""
        self._build(self.setting.modes[mode % len(self.setting.modes)])
        if begun:
            self._reset(7, None)

    # --- calls -------------------------------------------------------------------------------------------------------

    @rule(seed=SEED, mask=IDS)
    def reset(self, seed: int | None, mask: list[int] | None) -> None:
        self._reset(seed, mask)

    @rule(actions=ACTIONS, ids=IDS, hurry=HURRY)
    def step(self, actions: list[int], ids: list[int] | None, hurry: bool) -> None:
        self._step(self._allowed(actions, ids), ids, hurry)

    @rule(times=st.integers(1, 6), actions=ACTIONS)
    def go_on(self, times: int, actions: list[int]) -> None:
        """What a careful user does: receive what is pending, reset envs that need it, else step."""
        for _ in range(times):
            model = self.model
            if model.pending:
                self._recv(None)
            elif model.refuse_step(None) is None:
                self._step(self._allowed(actions, None), None)
                actions = [action % 3 for action in actions]
            else:
                ended = model.mode == "disabled"
                self._reset(None, [row.index for row in model.rows if not row.ready or (ended and row.done)])

    @rule(actions=ACTIONS, ids=IDS)
    def send(self, actions: list[int], ids: list[int] | None) -> None:
        self._send(self._allowed(actions, ids), ids)

    @rule(count=st.none() | st.integers(0, COUNT + 1), hurry=HURRY)
    def recv(self, count: int | None, hurry: bool) -> None:
        self._recv(count, hurry)

    @rule(call=CALLS, actions=ACTIONS, ids=IDS, seed=SEED, moment=MOMENT, way=WAYS)
    def interrupt(
        self, call: str, actions: list[int], ids: list[int] | None, seed: int | None, moment: float, way: str
    ) -> None:
        """KeyboardInterrupt during a call; then continue in one of several ways."""
        if not self.setting.interrupts or self.closed:
            return
        actions = self._allowed(actions, ids)
        work = self._work_of(call, actions, ids, seed)
        self.moment = moment
        try:
            {
                "step": lambda: self._step(actions, ids),
                "reset": lambda: self._reset(seed, ids),
                "send": lambda: self._send(actions, ids),
                "recv": lambda: self._recv(None),
            }[call]()
        except Interrupted:
            self.setting.tally[f"interrupts of {call}"] += 1
            self._continue(way, work, seed)
        finally:
            self.moment = None

    @rule(values=st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=COUNT, max_size=COUNT))
    def set_attr(self, values: list[float]) -> None:
        refusal = self.model.refuse_call()
        _, error = self._call("set_attr", lambda: self.envs.set_attr("bonus", values), refusal)
        if refusal is not None or self.closed:
            return
        for row, value in zip(self.model.rows, values, strict=True):
            row.bonus = value if error is None or value == row.bonus else UNKNOWN
        if error is not None:
            self._failed(error)

    @rule(value=st.integers(-3, 3))
    def call(self, value: int) -> None:
        """Read an attribute of all envs, and call a method of Python envs."""
        refusal = self.model.refuse_call()
        found, error = self._call("get_attr", lambda: self.envs.get_attr("bonus"), refusal)
        if refusal is not None or self.closed:
            return
        if error is not None:
            self._failed(error)
            return
        wanted = [row.bonus for row in self.model.rows]
        law("calls", agree(wanted, found), f"get_attr gave {found}, want {wanted}")
        if not self.setting.native:
            found, error = self._call("call", lambda: self.envs.call("poke", value))
            law("calls", found == tuple(row + value for row in EVERYONE), f"call gave {found or error!r}")

    @rule(row=st.sampled_from(EVERYONE))
    def kill(self, row: int) -> None:
        """Kill the process of an env from outside, whatever it is doing."""
        block = next((block for block in self.model.blocks if row in block), None)
        if self.closed or block is None or block in self.model.dead | self.model.gone | self.model.perhaps:
            return
        if not self.model.refuse_call():
            self._look_at_processes()
        if not is_alive(self.pids[row]) or block in self.model.gone:
            return
        self.setting.tally["kills"] += 1
        os.kill(self.pids[row], signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while is_alive(self.pids[row]) and time.monotonic() < deadline:
            time.sleep(0.001)
        self.model.dead.add(block)

    @rule(which=st.integers(0, 13))
    def wrong(self, which: int) -> None:
        """A call with wrong arguments changes nothing."""
        envs, zeros, model = self.envs, np.zeros(COUNT, np.int64), self.model
        calls: list[tuple[Callable[[], Any], type[VecenvError], Any]] = [
            (lambda: envs.step(zeros + 6), SpaceError, model.refuse_step(None)),
            (lambda: envs.step(zeros[1:]), SpaceError, model.refuse_step(None)),
            (lambda: envs.step(zeros + 0.5), SpaceError, model.refuse_step(None)),
            (lambda: envs.step(None), SpaceError, model.refuse_step(None)),
            (lambda: envs.send(zeros - 1), SpaceError, model.refuse_step(None)),
            (lambda: envs.step(zeros[:1], env_ids=[COUNT]), SpaceError, model.refuse_idle()),
            (lambda: envs.send(zeros[:1], env_ids=[-1]), SpaceError, None),
            (lambda: envs.send(zeros[:2], env_ids=[1, 1]), SpaceError, None),
            (lambda: envs.step(zeros[:0], env_ids=[]), SpaceError, None),
            (lambda: envs.recv(timeout=-1.0), ConfigError, model.refuse_recv(None)),
            (lambda: envs.recv(1.5), SpaceError, model.refuse_recv(None)),
            (lambda: envs.reset(seed=-1), SpaceError, model.refuse_reset(None)),
            (lambda: envs.reset(options={"reset_mask": np.zeros(COUNT, np.bool_)}), SpaceError, model.refuse_idle()),
            (lambda: envs.set_attr("bonus", [1.0]), SpaceError, model.refuse_call()),
        ]
        call, fitting, refusal = calls[which]
        expected = fitting if refusal is None else (fitting, refusal)
        self._call(f"wrong call {which}", call, (fitting, ClosedError) if self.closed else expected)
        self.setting.tally["wrong calls"] += 1

    @rule()
    def copy(self) -> None:
        """A vector env has processes, threads and shared memory: pickling it raises an error that says so."""
        if not self.setting.native:
            self._call("pickle", lambda: pickle.dumps(self.envs), UnsupportedError)

    @rule(really=st.sampled_from([*[False] * 7, True]))
    def close(self, really: bool) -> None:
        """Close; every later call must raise ClosedError."""
        if really:
            self._close()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _allowed(self, actions: list[int], ids: list[int] | None) -> list[int]:
        """Leave out orders that these envs cannot follow, such as ending a process that is this one."""
        if self.setting.native:
            return [action % 3 for action in actions]
        others = {row for block in self.model.blocks for row in block}
        chosen = EVERYONE if ids is None else ids
        return [SLOW if action == EXIT and row not in others else action for row, action in zip(chosen, actions)]  # noqa: B905

    def _work_of(self, call: str, actions: list[int], ids: list[int] | None, seed: int | None) -> dict[int, Work]:
        """The requests of a call."""
        chosen = EVERYONE if ids is None else ids
        if call == "reset":
            return {} if self.model.refuse_reset(ids) else self.model.plan_reset(chosen, seed)
        if call == "recv" or self.model.refuse_step(ids, partial=call == "send"):
            return {}
        return self.model.plan_step(chosen, actions[: len(chosen)])

    # --- after an interrupt ------------------------------------------------------------------------------------------

    def _continue(self, way: str, work: dict[int, Work], seed: int | None) -> None:
        """After an interrupt: receive what is pending, or reset, or try a step. No result may be stale or torn."""
        model, self.moment = self.model, None
        if model.dead:
            model.unheard |= model.dead
            way = "reset"
        if work.keys() & model.pending.keys():
            model.lose(certainly=False)
        for row, asked in work.items():
            if row in model.pending:  # a reset may have discarded this, or not
                model.rows[row].loosen(model.pending[row])
                way = "reset"
            model.pending[row] = replace(asked, unsure=True)
        if way == "step" and self._try_a_step(work):
            return
        if way == "reset":
            model.pending = {row: replace(asked, unsure=True) for row, asked in model.pending.items()}
            self._reset_everything(seed)
        else:
            self._receive_all()
            self._reset_missing(work)

    def _try_a_step(self, work: dict[int, Work]) -> bool:
        """A step right after an interrupt works as if nothing was sent, or its error names what is pending or lost."""
        model, asked = self.model, self.model.pending
        zeros = np.zeros(COUNT, np.int64)
        result, error = self._call("step", lambda: self.envs.step(zeros))
        if isinstance(error, (PendingError, NotResetError)):
            return False
        model.pending = {}
        free = asked.keys() <= work.keys() and model.refuse_step(None) is None
        law("order", free, "a step after an interrupt ignored what is pending or lost")
        model.sent(model.plan_step(EVERYONE, zeros.tolist()))
        self._compare_step(EVERYONE, result, error)
        return True

    def _reset_missing(self, work: dict[int, Work]) -> None:
        """Envs that returned nothing after an interrupt were not sent, or need a reset."""
        model, left = self.model, self.model.pending
        model.pending = {}
        model.settle()
        if not left:
            return
        ids, zeros = sorted(left), [0] * len(left)
        if left.keys() <= work.keys() and not model.refuse_step(ids):
            result, error = self._call("step", lambda: self.envs.step(np.array(zeros), ids))
            if not isinstance(error, NotResetError):
                model.sent(model.plan_step(ids, zeros))
                self._compare_step(ids, result, error)
                return
        model.pending = left
        self._reset_everything(None)

    def _reset_everything(self, seed: int | None) -> None:
        """Reset all envs, as often as dead or slow processes make it necessary."""
        model, first = self.model, True
        for _ in range(20):
            model.broken = True
            self._reset(seed, None, or_pending=first)
            if not model.pending and all(row.ready for row in model.rows):
                return
            first = False
        law("bound", False, "after an interrupt no reset ends")
