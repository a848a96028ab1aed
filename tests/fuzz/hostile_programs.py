"""One random program of calls on a vector env with hostile envs in it, and the laws that hold all the same.

- *Bound.* Every call ends in time.
- *Errors.* What a call raises is an error of ours, which names an env if an env is to blame. An exception of ours
  (a TypeError deep inside of vecenv) is not passed off as the env's.
- *Rows.* Rows of other envs are right to the last bit, as if nobody was hostile; so is the hostile row itself where its
  env only does something unusual.
- *Remains.* After `close` no process, thread or open file is left that was not there before.

A case is repeated by `python -m tests.fuzz.hostile_programs ENGINE SEED NUMBER`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import vecenv
from tests.fuzz.case_server import adopt_orphans, descendants
from tests.fuzz.hostile_envs import KINDS, HostileEnv, Kind
from vecenv._batch import faults
from vecenv.errors import EnvError, NothingPendingError, NotResetError, VecenvError, WorkerTimeout
from vecenv.testing import FaultEnv

COUNT = 4
BOUND = {"sync": 15.0, "thread": 15.0, "asyncio": 15.0, "process": 15.0, "ray": 60.0}
"""Seconds that a call may take on a busy machine. Timeouts of envs are much shorter."""
TIMEOUT = 0.6
PATIENCE = 4.0
SHOWN = [0, 2, 3, 4]
"""All of an observation but how often its object was reset: an env that was built again counts anew."""
OPTIONS: dict[str, dict[str, Any]] = {
    "sync": {"engine": "sync"},
    "thread": {"engine": "thread", "workers": 2},
    "asyncio": {"engine": "asyncio"},
    "process": {"engine": "process", "workers": 2, "context": "fork"},
    "ray": {"engine": "ray", "workers": 2, "num_cpus": 0.5},
}
MODES = ("next-step", "same-step", "disabled")


@dataclass(frozen=True)
class Case:
    """A program: who is hostile, how and when, and how the vector env is made."""

    engine: str
    kind: str
    where: str
    when: int
    again: bool
    rows: tuple[int, ...]
    mode: str
    on_error: str
    seed: int


def kinds_for(engine: str) -> list[str]:
    """Kinds that can be tried: those that end or stop the process need a process of their own, which Ray's are not."""
    return [name for name, kind in KINDS.items() if engine == "process" or not kind.alone]


def draw(engine: str, seed: int, number: int) -> Case:
    """Case `number` of a seed. As many cases as there are kinds try every kind once."""
    rng = np.random.default_rng([seed, number])
    names = kinds_for(engine)
    name = names[np.random.default_rng(seed).permutation(len(names))[number % len(names)]]
    kind = KINDS[name]
    rows = [(1,), (0,), (3,), (1, 2), (0, 1, 2, 3)][rng.choice(5, p=[0.4, 0.15, 0.15, 0.2, 0.1])]
    return Case(
        engine=engine,
        kind=name,
        where=str(rng.choice(kind.where)),
        when=int(rng.integers(1, 5)) if kind.where[0] == "step" else 1,
        again=bool(rng.random() < 0.3) and not kind.hangs,
        rows=rows,
        mode=str(rng.choice(MODES)),
        on_error=str(rng.choice(["raise", "raise", "restart"])),
        seed=int(rng.integers(1000)),
    )


def run(engine: str, seed: int, number: int) -> dict[str, Any]:
    """Run a case and check the laws; counts of what happened."""
    case = draw(engine, seed, number)
    print(f"case {number} of seed {seed}: {case}", flush=True)
    try:
        return dict(Program(case).run())
    except BaseException as error:
        raise AssertionError(f"case {number} of seed {seed}: {case}") from error


class Twin:
    """What a row shows if nobody is hostile: its env in a plain loop."""

    def __init__(self, row: int, mode: str, seed: int) -> None:
        self.env = FaultEnv(row, length=5)
        self.mode = mode
        self.done = False
        self.obs = self.env.reset(seed=seed)[0]

    def reset(self) -> None:
        self.obs, self.done = self.env.reset()[0], False

    def step(self, action: int) -> tuple[float, bool]:
        """Reward and whether the episode ended."""
        if self.done and self.mode == "next-step":
            self.reset()
            return 0.0, False
        self.obs, reward, over, _, _ = self.env.step(np.int64(action))
        self.done = over and self.mode != "same-step"
        if over and self.mode == "same-step":
            self.obs = self.env.reset()[0]
        return reward, over


class Program:
    """Makes the vector env, calls it at random, closes it, and compares all the time."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.kind: Kind = KINDS[case.kind]
        self.rng = np.random.default_rng(case.seed)
        self.tally: Counter[str] = Counter()
        self.twins: dict[int, Twin] = {}
        """Rows that must be right. The others were hostile or lost since their last reset."""
        self.seed = 0
        self.envs: Any = None

    def run(self) -> Counter[str]:
        faults._FIRST_PAUSE = 0.001
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            vecenv.make(FaultEnv.many(2), **OPTIONS[self.case.engine]).close()  # what stays after the first is no leak
            if self.case.engine != "ray":
                adopt_orphans()
            before = _descriptors(), set(threading.enumerate()), set(descendants(os.getpid()))
            try:
                self._make()
                if self.envs is not None and self._reset():
                    for _ in range(int(self.rng.integers(4, 9))):
                        if not self._one_call():
                            break
            finally:
                if self.envs is not None:
                    self._timed("close", lambda: self.envs.close(timeout=1.0))
            self.envs = None
            if self.case.engine != "ray":  # whose processes and files are its own
                self._check_remains(*before)
        return self.tally

    # --- calls -------------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        case = self.case
        hostile = {"does": case.kind, "where": case.where, "when": case.when, "again": case.again}
        factories = [
            partial(HostileEnv, row, **hostile) if row in case.rows else partial(FaultEnv, row, length=5, talks=True)
            for row in range(COUNT)
        ]
        limits = {"timeout": TIMEOUT} if self.kind.hangs else {}
        if case.engine == "process":
            limits["start_timeout"] = 3.0
        options = {**OPTIONS[case.engine], "autoreset": case.mode, "on_error": case.on_error, **limits}
        self.envs, _ = self._timed("make", lambda: vecenv.make(factories, **options))

    def _one_call(self) -> bool:
        """A random call; whether the program goes on."""
        if len(self.twins) < COUNT - len(self.case.rows) and self.rng.random() < 0.5:
            return self._reset()
        call = self.rng.choice(["step", "step", "step", "step", "send", "reset", "mask", "poke", "attribute"])
        if call == "reset":
            return self._reset()
        if call == "mask":
            return self._reset(sorted(self.rng.choice(COUNT, int(self.rng.integers(1, COUNT)), False).tolist()))
        if call == "send":
            return self._step(sorted(self.rng.choice(COUNT, int(self.rng.integers(1, COUNT)), False).tolist()))
        if call == "poke":
            found, error = self._timed("call", lambda: self.envs.call("poke", 5))
            if error is None:
                wanted = [row + 5 for row in range(COUNT) if row not in self.case.rows]
                assert [found[row] for row in range(COUNT) if row not in self.case.rows] == wanted, found
            self._lose(error)
            return self._goes_on(error)
        if call == "attribute":
            _, error = self._timed("set_attr", lambda: self.envs.set_attr("unused", list(range(COUNT))))
            self._lose(error)
            return self._goes_on(error)
        return self._step(None)

    def _reset(self, rows: list[int] | None = None) -> bool:
        """Reset some rows or all, until that succeeds; whether it did."""
        chosen = list(range(COUNT)) if rows is None else rows
        self.seed += 100
        options = None if rows is None else {"reset_mask": np.isin(np.arange(COUNT), chosen)}
        for _ in range(3):
            result, error = self._timed("reset", lambda: self.envs.reset(seed=self.seed, options=options))
            for row in chosen:
                self.twins.pop(row, None)
            if isinstance(error, NotResetError):
                return self._reset()
            if error is None:
                self._begin(chosen, *result)
                return True
            self._lose(error)
            if isinstance(error, WorkerTimeout):
                self.twins.clear()
                if self.case.engine != "process":
                    return False
                continue  # the next reset kills the worker
            self._receive(dict.fromkeys(range(COUNT), None))
            options = None  # what failed may be other rows than those that were to be reset
            chosen = list(range(COUNT))
        return False

    def _begin(self, rows: Iterable[int], obs: np.ndarray, infos: dict[str, Any]) -> None:
        restarted = infos.get("_fault", np.zeros(COUNT, np.bool_))
        for row in rows:
            if self._is_modelled(row) and not restarted[row]:
                self.twins[row] = Twin(row, self.case.mode, self.seed + row)
        for row, twin in self.twins.items():
            np.testing.assert_array_equal(obs[row, SHOWN], twin.obs[SHOWN], f"reset, env {row}")
            self.tally["rows"] += 1

    def _step(self, ids: list[int] | None) -> bool:
        """Step some rows or all; what fails is reset at some later time."""
        chosen = list(range(COUNT)) if ids is None else ids
        if self.case.mode == "disabled" and any(self._is_over(row) for row in chosen):
            return self._reset()
        actions = self.rng.integers(0, 1000, len(chosen))
        sent = dict(zip(chosen, actions.tolist(), strict=True))
        if ids is None:
            result, error = self._timed("step", lambda: self.envs.step(actions))
        else:
            _, error = self._timed("send", lambda: self.envs.send(actions, ids))
            result = None
            if error is None:
                self._receive(sent)
                return True
        if isinstance(error, NotResetError):
            return self._reset()
        if error is None:
            self._compare(chosen, result, sent)
            return True
        self._lose(error)
        if not self._goes_on(error):
            return False
        self._receive(sent)
        return True

    def _receive(self, sent: dict[int, int | None]) -> None:
        """Receive until nothing is pending. Each row comes once, in a result or in an error."""
        for _ in range(3 * COUNT):
            step, error = self._timed("recv", lambda: self.envs.recv())
            if isinstance(error, NothingPendingError):
                return
            if isinstance(error, WorkerTimeout):
                for row in sent:
                    self.twins.pop(row, None)
                return
            self._lose(error)
            if step is not None:
                self._compare(step.env_ids.tolist(), tuple(step), sent)
        raise AssertionError("recv() does not end")

    def _compare(self, rows: list[int], result: Any, sent: dict[int, int | None]) -> None:
        """Rows that have a twin are equal to it; one that was restarted has lost its own."""
        obs, reward, terminated, truncated, infos = result[:5]
        restarted = infos.get("_fault", np.zeros(len(rows), np.bool_))
        for place, row in enumerate(rows):
            if bool(restarted[place]) or (row in self.case.rows and not self.kind.harmless):
                self.twins.pop(row, None)
            action, twin = sent.get(row), self.twins.get(row)
            if twin is None or action is None:
                self.twins.pop(row, None)
                continue
            gained, over = twin.step(action)
            where = f"step, env {row}"
            np.testing.assert_array_equal(obs[place][SHOWN], twin.obs[SHOWN], where)
            assert (reward[place], terminated[place] or truncated[place]) == (gained, over), where
            self.tally["rows"] += 1

    # --- laws --------------------------------------------------------------------------------------------------------

    def _is_modelled(self, row: int) -> bool:
        return row not in self.case.rows or self.kind.harmless

    def _is_over(self, row: int) -> bool:
        return row not in self.twins or self.twins[row].done

    def _timed(self, name: str, call: Callable[[], Any]) -> tuple[Any, Any]:
        """The result of a call or its error, which must be ours, in time."""
        started = time.monotonic()
        result, error = None, None
        try:
            result = call()
        except VecenvError as raised:
            error = raised
            self._check_error(error)
        except BaseException as raised:
            if not self._is_the_programs_own(raised):
                raise
            error = raised
        elapsed = time.monotonic() - started
        assert elapsed < BOUND[self.case.engine], f"{name} took {elapsed:.1f} s"
        self.tally["calls"] += 1
        if error is not None:
            self.tally["errors"] += 1
        return result, error

    def _is_the_programs_own(self, error: BaseException) -> bool:
        """Ctrl-C and the like leave the engine that runs envs in the caller's thread as they are."""
        return self.kind.raises and self.case.engine == "sync" and not isinstance(error, Exception)

    def _check_error(self, error: VecenvError) -> None:
        text = str(error)
        assert len(text) < 200_000, f"a message of {len(text)} letters"
        if not isinstance(error, EnvError) or isinstance(error, WorkerTimeout):
            return
        assert error.phase in ("make", "reset", "step", "call", "close"), f"phase {error.phase!r}"
        assert error.row is None or error.row in range(COUNT), f"row {error.row}"
        assert set(error.rows) <= set(range(COUNT)), f"rows {error.rows}"
        if self.case.where != "spaces" and error.row is not None and type(error).__name__ == "EnvError":
            assert error.row in self.case.rows, f"env {error.row} is blamed for what envs {self.case.rows} did: {text}"
        assert not self._stumbled(error), f"an internal error is passed off as the env's: {error.remote_traceback}"

    def _stumbled(self, error: EnvError) -> bool:
        """Whether vecenv's own code raised, and not to refuse something."""
        text = error.remote_traceback
        files = re.findall(r'File "([^"]+)", line', text)
        refused = re.search(r"^vecenv\.errors\.", text.splitlines()[-1] if text else "")
        return bool(files) and not refused and f"{os.sep}vecenv{os.sep}" in files[-1] and "testing" not in files[-1]

    def _lose(self, error: Any) -> None:
        if isinstance(error, EnvError) and not isinstance(error, WorkerTimeout):
            for row in error.rows:
                self.twins.pop(row, None)
        elif error is not None and not isinstance(error, VecenvError):
            self.twins.clear()

    def _goes_on(self, error: Any) -> bool:
        """An engine that cannot end an env that hangs is closed."""
        if isinstance(error, WorkerTimeout):
            self.twins.clear()
            return self.case.engine == "process" and self._reset()
        return True

    def _check_remains(self, files: dict[int, str], threads: set[Any], processes: set[int]) -> None:
        """Nothing is left, but for what envs left that ran in this process."""
        deadline = time.monotonic() + PATIENCE
        own = self.case.engine in ("process", "ray")
        left: Any = "?"
        while left and time.monotonic() < deadline:
            gc.collect()
            left = {}
            if self.kind.outlives:
                left = {}
            elif own or not self.kind.leaves:
                left = {pid: text for pid, text in descendants(os.getpid()).items() if pid not in processes}
            if own or not self.kind.leaves:
                now = _descriptors()
                left.update({f"file {number}": now[number] for number in now if number not in files})
                left.update({f"thread {thread.name}": "" for thread in set(threading.enumerate()) - threads})
            time.sleep(0.01)
        assert not left, f"left after close(): {left}"


def _descriptors() -> dict[int, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[int(number)] = os.readlink(f"/proc/self/fd/{number}")
    return found


if __name__ == "__main__":
    print(draw(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
