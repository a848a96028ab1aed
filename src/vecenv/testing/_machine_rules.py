"""The state machine that calls a vector env in any order and compares every answer with a model."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from vecenv._infos import rows_of_arrays
from vecenv.errors import (
    ClosedError,
    ConfigError,
    EnvError,
    NothingPendingError,
    NotResetError,
    PendingError,
    SpaceError,
    UnsupportedError,
    VecenvError,
    WorkerDied,
    WorkerTimeout,
)
from vecenv.testing._laws import _law
from vecenv.testing._machine_model import UNKNOWN, Model, Shown, Work
from vecenv.testing._obedient_env import EXIT, RAISE, SLOW, ObedientEnv
from vecenv.testing._remains import Remains, is_alive

COUNT = 4
EVERYONE = tuple(range(COUNT))
_SOON = 0.005
"""Seconds that a hurried call waits; a slow env takes longer."""

_ACTION = st.sampled_from([*(0, 1, 2) * 8, RAISE, SLOW, EXIT])
ACTIONS = st.lists(_ACTION, min_size=COUNT, max_size=COUNT)
IDS = st.none() | st.lists(st.sampled_from(EVERYONE), min_size=1, max_size=COUNT, unique=True)
SEED = st.none() | st.integers(0, 1000)
HURRY = st.sampled_from([False, False, False, True])
MOMENT = st.floats(-5.5, -1.5).map(lambda exponent: 10**exponent)
"""When an interrupt comes: in 3 us to 30 ms."""
CALLS = st.sampled_from(["step", "reset", "send", "recv"])
WAYS = st.sampled_from(["recv", "reset", "step"])


@dataclass
class Setting:
    """What a run of the machine is about.

    Attributes:
        build: makes the vector env of factories in an autoreset mode.
        native: the envs are twins of LawEnv in native code: no infos, no orders, nothing to call.
        interrupts: whether KeyboardInterrupt may be raised inside calls.
        bound: seconds that any call may take.
        tally: how often what happened.
    """

    build: Callable[[Sequence[Any], str], Any]
    modes: Sequence[str]
    native: bool
    interrupts: bool
    bound: float
    tally: Counter[str] = field(default_factory=Counter)


class Machine(RuleBasedStateMachine):
    """Any call at any time. No rule has a precondition: the model knows what a call must answer.

    What is drawn never depends on what the envs did, so a run can be repeated although processes differ in speed.
    """

    setting: Setting

    @initialize(mode=st.integers(0, 2), begun=st.sampled_from([True] * 7 + [False]))
    def build(self, mode: int, begun: bool) -> None:
        """Make the vector env and find out which envs share a process."""
        self._build(self.setting.modes[mode % len(self.setting.modes)])
        if begun:
            self._reset(7, None)

    def _build(self, mode: str) -> None:
        self.remains = Remains()
        self.envs = self.setting.build(ObedientEnv.many(COUNT), mode)
        self.closed, self.moment = False, None
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        self.pids: tuple[int, ...] = () if self.setting.native else self.envs.call("worker_pid")
        others = sorted({pid for pid in self.pids if pid != os.getpid()})
        blocks = sorted(tuple(row for row in EVERYONE if self.pids[row] == pid) for pid in others)
        self.model = Model(COUNT, mode, blocks)
        self.setting.tally["programs"] += 1

    def teardown(self) -> None:
        """Close, and look at what is left."""
        if not hasattr(self, "envs"):
            return
        self._close()
        del self.envs  # what is mapped goes with it
        for array, copied in self.kept:
            _law("ownership", np.array_equal(array, copied), "an array was changed after it had been handed out")
        if sys.exc_info()[1] is None:  # or its traceback would hold everything
            self.remains.check(self.pids)

    # --- calls -------------------------------------------------------------------------------------------------------

    @rule(seed=SEED, mask=IDS)
    def reset(self, seed: int | None, mask: list[int] | None) -> None:
        self._reset(seed, mask)

    @rule(actions=ACTIONS, ids=IDS, hurry=HURRY)
    def step(self, actions: list[int], ids: list[int] | None, hurry: bool) -> None:
        self._step(self._allowed(actions, ids), ids, hurry)

    @rule(times=st.integers(1, 6), actions=ACTIONS)
    def go_on(self, times: int, actions: list[int]) -> None:
        """What a careful user does: receive what is pending, reset what needs it, else step."""
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
        """Ctrl-C in the middle of a call; then go on in some way."""
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
        except _Interrupted:
            self.setting.tally[f"interrupts of {call}"] += 1
            self._go_on(way, work, seed)
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
        _law("calls", agree(wanted, found), f"get_attr gave {found}, want {wanted}")
        if not self.setting.native:
            found, error = self._call("call", lambda: self.envs.call("poke", value))
            _law("calls", found == tuple(row + value for row in EVERYONE), f"call gave {found or error!r}")

    @rule(row=st.sampled_from(EVERYONE))
    def kill(self, row: int) -> None:
        """End the process of an env from outside, whatever it is doing."""
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
        """A call that cannot be right changes nothing."""
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
        """A vector env holds processes, threads and memory: it is not pickled, and says so."""
        if not self.setting.native:
            self._call("pickle", lambda: pickle.dumps(self.envs), UnsupportedError)

    @rule(really=st.sampled_from([*[False] * 7, True]))
    def close(self, really: bool) -> None:
        """Close; whatever follows must say that it is closed."""
        if really:
            self._close()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _allowed(self, actions: list[int], ids: list[int] | None) -> list[int]:
        """Leave out the orders that these envs cannot obey, such as the end of a process, if it is this one."""
        if self.setting.native:
            return [action % 3 for action in actions]
        others = {row for block in self.model.blocks for row in block}
        chosen = EVERYONE if ids is None else ids
        return [SLOW if action == EXIT and row not in others else action for row, action in zip(chosen, actions)]  # noqa: B905

    def _work_of(self, call: str, actions: list[int], ids: list[int] | None, seed: int | None) -> dict[int, Work]:
        """What a call asks for."""
        chosen = EVERYONE if ids is None else ids
        if call == "reset":
            return {} if self.model.refuse_reset(ids) else self.model.plan_reset(chosen, seed)
        if call == "recv" or self.model.refuse_step(ids, partial=call == "send"):
            return {}
        return self.model.plan_step(chosen, actions[: len(chosen)])

    def _reset(self, seed: int | None, mask: Sequence[int] | None, or_pending: bool = False) -> None:
        """Reset. `or_pending`: an interrupt may have come before the last call began; then nothing may be discarded."""
        model, refusal = self.model, self.model.refuse_reset(mask)
        options = None if mask is None else {"reset_mask": np.isin(EVERYONE, mask)}
        result, error = self._call("reset", lambda: self.envs.reset(seed=seed, options=options), refusal)
        if refusal is not None or self.closed:
            return
        chosen = EVERYONE if mask is None else mask
        if isinstance(error, PendingError) and or_pending:
            self._receive_all()
            return
        if isinstance(error, WorkerTimeout) and model.impatient:
            return  # it may not kill what it waits for: nothing has changed
        model.discard([row for row, work in model.pending.items() if work.is_order(SLOW)])
        model.sent(model.plan_reset(chosen, seed))
        if error is not None:
            self._failed(error)
            return
        obs, infos = result
        told = rows_of_arrays(infos, COUNT)
        _law("rows", obs.shape == (COUNT, 5) and obs.dtype == np.float64, f"obs are {obs.dtype} of shape {obs.shape}")
        for row in EVERYONE:
            if row in chosen:
                self._check_row(row, obs[row], told[row])
            elif (counters := model.rows[row]).ready:
                _law("rows", np.array_equal(obs[row], counters.obs), f"a reset of others changed env {row}: {obs[row]}")
        self._keep(obs)

    def _step(self, actions: Sequence[int], ids: Sequence[int] | None, hurry: bool = False) -> None:
        refusal, chosen = self.model.refuse_step(ids), EVERYONE if ids is None else ids
        given = np.array(actions[: len(chosen)])
        if hurry:
            self.envs.timeout = _SOON
        try:
            result, error = self._call("step", lambda: self.envs.step(given, ids), refusal)
        finally:
            self.envs.timeout = None
        if refusal is not None or self.closed:
            return
        self.model.sent(self.model.plan_step(chosen, given.tolist()))
        if error is not None:
            self._failed(error, hurry)
        else:
            self._deliver(chosen, *result)

    def _send(self, actions: Sequence[int], ids: Sequence[int] | None) -> None:
        refusal, chosen = self.model.refuse_step(ids, partial=True), EVERYONE if ids is None else ids
        given = np.array(actions[: len(chosen)])
        _, error = self._call("send", lambda: self.envs.send(given, ids) or True, refusal)
        if refusal is None and not self.closed:
            _law("errors", error is None, f"send raised {error!r}")
            self.model.sent(self.model.plan_step(chosen, given.tolist()))

    def _recv(self, count: int | None, hurry: bool = False) -> None:
        refusal = self.model.refuse_recv(count)
        timeout = _SOON if hurry else None
        step, error = self._call("recv", lambda: self.envs.recv(count, timeout), refusal)
        if refusal is not None or self.closed:
            return
        if error is not None:
            self._failed(error, hurry)
            return
        ids, pending = step.env_ids.tolist(), sorted(self.model.pending)
        wanted = len(pending) if count is None else count
        _law("rows", len(ids) == len(set(ids)) == wanted, f"recv({count}) of {pending} returned envs {ids}")
        _law("rows", ids == pending or wanted < len(pending), f"all pending envs {pending} came as {ids}")
        valid = [row in pending and self.model.pending[row].op.name != "RESET" for row in ids]
        _law("rows", step.valid.tolist() == valid, f"valid is {step.valid}, want {valid}")
        self._deliver(ids, *step)
        totals = [(self.model.rows[row].total, self.model.rows[row].length) for row in ids]
        told = list(zip(step.episode_return.tolist(), step.episode_length.tolist(), strict=True))
        _law("rows", told == totals, f"totals of envs {ids} are {told}, want {totals}")

    def _deliver(self, ids: Sequence[int], obs: Any, reward: Any, terminated: Any, truncated: Any, infos: Any) -> None:
        """Compare what came with the model, row by row."""
        told = rows_of_arrays(infos, len(ids))
        shapes = [np.shape(column) for column in (obs, reward, terminated, truncated)]
        _law("rows", shapes == [(len(ids), 5), *[(len(ids),)] * 3], f"{len(ids)} envs came with shapes {shapes}")
        for position, row in enumerate(ids):
            flags = bool(terminated[position]), bool(truncated[position])
            self._check_row(row, obs[position], told[position], float(reward[position]), flags)
        self._keep(obs, reward, terminated, truncated)
        self._check_totals()

    def _check_row(
        self,
        row: int,
        obs: np.ndarray,
        told: dict[str, Any],
        reward: float = 0.0,
        flags: tuple[bool, bool] = (False,) * 2,
    ) -> None:
        model, counters = self.model, self.model.rows[row]
        _law("rows", row in model.pending, f"env {row} was delivered, and nobody had asked")
        work, first = model.pending[row], counters.done
        _law("errors", not work.is_order(RAISE), f"env {row} raised, and nobody was told")
        _law("errors", not work.is_order(EXIT), f"the process of env {row} ended, and nobody was told")
        _law("errors", not work.to_the_dead, f"env {row} was delivered by a process that was dead")
        del model.pending[row]
        shown = counters.run(work)
        if work.op.name == "RESET" or shown.final_obs is not None:
            problem = counters.saw(obs)
            _law("rows", problem is None, problem or "")
        self._compare(row, shown, obs, told, reward, flags)
        counters.gained(work, reward, first)
        model.delivered(row, obs.copy())
        self.setting.tally["rows"] += 1

    def _compare(
        self, row: int, shown: Shown, obs: np.ndarray, told: dict[str, Any], reward: float, flags: tuple[bool, bool]
    ) -> None:
        final_obs, final_info = told.pop("final_obs", None), told.pop("final_info", {})
        _law("rows", agree(shown.obs, obs), f"env {row} shows {obs.tolist()}, want {shown.obs}")
        _law("rows", agree([shown.reward], [reward]), f"the reward of env {row} is {reward}, want {shown.reward}")
        wanted = shown.terminated, shown.truncated
        _law("rows", flags == wanted, f"env {row} is (terminated, truncated) = {flags}, want {wanted}")
        _law("rows", (final_obs is None) == (shown.final_obs is None), f"final_obs of env {row} is {final_obs}")
        if shown.final_obs is not None:
            _law("rows", agree(shown.final_obs, final_obs), f"final_obs of {row}: {final_obs}, want {shown.final_obs}")
        if not self.setting.native:
            infos = [(shown.info, told), (shown.final_info, final_info)]
            right = all(a.keys() == b.keys() and agree(list(a.values()), list(b.values())) for a, b in infos)
            _law("infos", right, f"infos of env {row} are {told}, {final_info}; want {shown.info}, {shown.final_info}")

    def _check_totals(self) -> None:
        sums, lengths = self.envs.episode_return, self.envs.episode_length
        for row in self.model.rows:
            if row.ready and row.index not in self.model.pending:
                told = sums[row.index], lengths[row.index]
                _law("rows", told == (row.total, row.length), f"totals {told} of {row.index}: {row.total, row.length}")

    def _failed(self, error: VecenvError, hurry: bool = False, struck: bool = False) -> None:
        """An error that came instead of results: one that had to come, and the model goes on from there."""
        model = self.model
        _law("errors", isinstance(error, EnvError), f"{type(error).__name__} is no failure of an env: {error}")
        rows = error.rows  # type: ignore[attr-defined]  # see above
        self.setting.tally[type(error).__name__] += 1
        if isinstance(error, WorkerTimeout):
            _law("errors", hurry, f"nobody was in a hurry: {error}")
            model.broken = model.impatient = True
        elif isinstance(error, WorkerDied):
            _law("errors", rows in model.blocks and model.may_die(rows), f"envs {rows} did not die: {error}")
            model.died(rows)
        elif struck and "KeyboardInterrupt" in str(error):
            for row in rows:
                model.struck(row)
        else:
            right = isinstance(error, ValueError) and len(rows) == 1 and model.must_raise(rows[0])
            _law("errors", right, f"envs {rows} were not told to fail: {error!r}")
            model.failed(rows[0])

    def _go_on(self, way: str, work: dict[int, Work], seed: int | None) -> None:
        """After an interrupt: receive what is owed, or begin anew, or try a step. Nothing may be stale or torn."""
        model, self.moment = self.model, None
        for row, asked in work.items():
            if row in model.pending:  # a reset may have discarded this, or not
                model.rows[row].loosen(model.pending[row])
                way = "reset"
            model.pending[row] = replace(asked, unsure=True)
        if way == "step" and self._try_a_step(work):
            return
        if way == "reset":
            model.pending = {row: replace(asked, unsure=True) for row, asked in model.pending.items()}
            self._begin_anew(seed)
        else:
            self._receive_all()
            self._bring_back(work)

    def _try_a_step(self, work: dict[int, Work]) -> bool:
        """A step straight after an interrupt works as if nothing had been asked, or says what is in its way."""
        model, asked = self.model, self.model.pending
        zeros = np.zeros(COUNT, np.int64)
        result, error = self._call("step", lambda: self.envs.step(zeros))
        if isinstance(error, (PendingError, NotResetError)):
            return False
        model.pending = {}
        free = asked.keys() <= work.keys() and model.refuse_step(None) is None
        _law("order", free, "a step after an interrupt passed over what is pending or lost")
        model.sent(model.plan_step(EVERYONE, zeros.tolist()))
        if error is None:
            self._deliver(EVERYONE, *result)
        else:
            self._failed(error)
        return True

    def _receive_all(self) -> None:
        """Receive until nothing is pending; what stays in `model.pending` was never sent, or is lost."""
        for _ in range(3 * COUNT):
            step, error = self._call("recv", self.envs.recv)
            if isinstance(error, NothingPendingError):
                return
            if error is not None:
                self._failed(error, struck=True)
            else:
                self._deliver(step.env_ids.tolist(), *step)
        _law("bound", False, "after an interrupt recv() goes on for ever")

    def _bring_back(self, work: dict[int, Work]) -> None:
        """Envs that delivered nothing after an interrupt were not asked, or need a reset."""
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
                if error is None:
                    self._deliver(ids, *result)
                else:
                    self._failed(error)
                return
        model.pending = left
        self._begin_anew(None)

    def _begin_anew(self, seed: int | None) -> None:
        """Reset everything, as often as dead or slow processes make it necessary."""
        model, first = self.model, True
        for _ in range(20):
            model.broken = True
            self._reset(seed, None, or_pending=first)
            if not model.pending and all(row.ready for row in model.rows):
                return
            first = False
        _law("bound", False, "after an interrupt no reset comes to its end")

    def _look_at_processes(self) -> None:
        """Ask where every env lives: as many processes as before, and the old ones are gone."""
        before = self.pids
        pids, error = self._call("call", lambda: self.envs.call("worker_pid"))
        if error is not None:
            self._failed(error)
            return
        self.pids = pids
        homes = sorted(tuple(row for row in EVERYONE if pids[row] == pid) for pid in set(pids) - {os.getpid()})
        _law("processes", homes == self.model.blocks, f"envs live together as {homes}, want {self.model.blocks}")
        self.remains.replaced(set(before) - set(pids))

    def _close(self) -> None:
        started = time.monotonic()
        self.envs.close()
        self.closed = True
        self._check_bound("close", started)

    def _call(self, name: str, call: Callable[[], Any], refusal: Any = None) -> tuple[Any, Any]:
        """Result and error of a call, which must come in time and be of a documented type."""
        refusal = (
            ClosedError if self.closed and refusal is not UnsupportedError and type(refusal) is not tuple else refusal
        )
        started, box, error = time.monotonic(), [None], None
        try:
            if self.moment is None:
                box[0] = call()
            else:
                call_and_interrupt(call, self.moment, box)
        except VecenvError as raised:
            error = raised
        except Exception as raised:
            _law("errors", isinstance(raised, _Interrupted), f"{name} raised {raised!r}")
            self._check_bound(name, started)
            raise
        result = box[0]
        self._check_bound(name, started)
        if refusal is not None:
            _law("order", isinstance(error, refusal), f"{name} must raise {refusal}, and it gave {error or result!r}")
            self.setting.tally["refusals"] += 1
        self.setting.tally["calls"] += 1
        return result, error

    def _check_bound(self, name: str, started: float) -> None:
        took = time.monotonic() - started
        _law("bound", took < self.setting.bound, f"{name} took {took:.2f} s, allowed are {self.setting.bound} s")

    def _keep(self, *arrays: np.ndarray) -> None:
        self.kept = [*self.kept[-20:], *((array, array.copy()) for array in arrays)]


def agree(wanted: Sequence[float], found: Any) -> bool:
    """Equal where something is known."""
    return len(wanted) == len(found) and all(a != a or a == b for a, b in zip(wanted, found, strict=True))


class _Interrupted(Exception):
    """A call was interrupted and has no result."""


def call_and_interrupt(call: Callable[[], Any], seconds: float, box: list[Any]) -> None:
    """Put the result of a call into the box, but raise KeyboardInterrupt inside it after this time.

    Raises:
        _Interrupted: the interrupt came before the result.
    """
    inside = [True]

    def handler(number: int, frame: Any) -> None:
        if inside[0]:
            inside[0] = False
            raise KeyboardInterrupt

    gc.disable()  # an interrupt of a finalizer would be lost
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        box[0] = call()  # both are Python code: no handler runs between the return and the assignment
        inside[0] = False
    except KeyboardInterrupt:
        if box[0] is None:
            raise _Interrupted from None
    finally:
        inside[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
