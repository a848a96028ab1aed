"""The row loop: runs ops on Python environments. Sync, thread and process engines all run this one."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch import Batch, Mail, Op
from vecenv._faults import Fault, OnError, RestartPolicy, restart_seed
from vecenv._memory import HeapMemory, Memory
from vecenv._seeding import NO_SEED
from vecenv.errors import RestartLimit, SpaceError

Factory = Callable[[], gymnasium.Env[Any, Any]]

_BOOLS = frozenset({bool, np.bool_})
_NUMBERS = (float, int, np.floating, np.integer)
_SAMPLED = 8
"""One exchange in this many is timed env by env."""
_ENV_RAISED = (Exception, SystemExit)
"""What counts as a failure of the env; Ctrl-C does not."""
BUCKETS = 48
"""Bucket b of a histogram counts steps of 2**(b-1) ... 2**b - 1 ns."""


@dataclass
class Clocks:
    """Time spent in the envs of some rows; columns like those of a batch, so that workers can share them.

    Attributes:
        busy: ns inside env code, [1]; `rows_run` ops were run in that time.
        current: row being run now, -1 for none.
        histogram: [rows, BUCKETS] sampled step times; `total` their sum in ns.
    """

    busy: np.ndarray
    rows_run: np.ndarray
    current: np.ndarray
    histogram: np.ndarray
    total: np.ndarray

    @classmethod
    def allocate(cls, count: int, memory: Memory | None = None) -> Clocks:
        memory = memory or HeapMemory()
        integer = np.dtype(np.int64)
        clocks = cls(
            busy=memory.array((1,), integer),
            rows_run=memory.array((1,), integer),
            current=memory.array((1,), integer),
            histogram=memory.array((count, BUCKETS), integer),
            total=memory.array((count,), integer),
        )
        clocks.current[0] = -1
        return clocks


class RowRunner:
    """Runs the ops of a block of rows on the envs that belong to them.

    A failing env never stops the others: its failure is put into the row's mail.

    Args:
        envs: one env per row of `batch`.
        batch: the rows, local to this runner.
        first: global index of the first row.
        factories: how to build the envs again, used with `on_error="restart"`.
        on_error: "raise" leaves a failed env alone until it is reset; "restart" builds it again.
        lost: rows whose env was rebuilt because their worker died, and why; their next op reports it.
    """

    def __init__(
        self,
        envs: list[gymnasium.Env[Any, Any]],
        batch: Batch,
        clocks: Clocks,
        *,
        first: int = 0,
        factories: Sequence[Factory] = (),
        on_error: OnError = "raise",
        lost: dict[int, Fault] | None = None,
    ) -> None:
        self.envs = envs
        self.batch = batch
        self.clocks = clocks
        self.first = first
        self._policies = [RestartPolicy(first + row) for row in range(len(envs))]
        self._factories = factories
        self._on_error = on_error
        self._lost = lost or {}
        self._exchanges = 0
        self._fresh = [True] * len(envs)
        self._write_obs = batch.observation_layout.writer(batch.obs)
        self._write_final = batch.observation_layout.writer(batch.final_obs)

    def run(self, rows: Sequence[int]) -> None:
        """Run `batch.op[row]` on each row; afterwards every column is written and the op is IDLE."""
        batch, envs, mail, fresh = self.batch, self.envs, self.batch.mail, self._fresh
        write_obs, lost = self._write_obs, self._lost
        ops, reward_column = memoryview(batch.op), memoryview(batch.reward)
        terminated_column, truncated_column = memoryview(batch.terminated), memoryview(batch.truncated)
        return_column, length_column = memoryview(batch.episode_return), memoryview(batch.episode_length)
        current = memoryview(self.clocks.current)
        sampled = self._exchanges % _SAMPLED == 0
        self._exchanges += 1
        clock = time.perf_counter_ns
        started = now = clock()
        action_of = self._actions()
        for row in rows:
            current[0] = row
            op = ops[row]
            if op == 2 or row in lost:  # Op.RESET; a plain number because an enum look-up per row is felt
                self._attempt(row, op, None)
                fresh[row] = True
            else:
                action = action_of(row)
                try:
                    result = envs[row].step(action)
                    try:
                        obs, reward, terminated, truncated, info = result
                    except (TypeError, ValueError):
                        raise SpaceError(_not_five(result)) from None
                    if type(reward) is not float:
                        reward = _number(reward)
                    if type(terminated) not in _BOOLS or type(truncated) not in _BOOLS:
                        raise SpaceError(_not_bools(terminated, truncated))
                    if info or type(info) is not dict:
                        mail[row] = Mail(_checked_info(info))
                    if fresh[row]:
                        return_column[row], length_column[row] = reward, 1
                        fresh[row] = False
                    else:
                        return_column[row] += reward
                        length_column[row] += 1
                    reward_column[row] = reward
                    terminated_column[row] = terminated
                    truncated_column[row] = truncated
                    if terminated or truncated:
                        fresh[row] = True
                        if op == 3:  # Op.ROLL
                            self._write_final(row, obs)
                            mail[row] = Mail({}, final_info=copy.deepcopy(info))
                            self._attempt(row, op, action)
                        else:
                            write_obs(row, obs)
                    else:
                        write_obs(row, obs)
                except _ENV_RAISED as error:
                    self._failed(row, op, Fault.of(error, "step", action, self._last_seed(row)))
                    fresh[row] = True
            ops[row] = 0
            if sampled:
                self._sample(row, clock() - now)
                now = clock()
        current[0] = -1
        self.clocks.busy[0] += clock() - started
        self.clocks.rows_run[0] += len(rows)

    def run_whatever_happens(self, rows: Sequence[int]) -> None:
        """Like `run`, where no user is waiting who could interrupt: anything an env raises is its own failure."""
        remaining = list(rows)
        while remaining:
            try:
                self.run(remaining)
                return
            except BaseException as error:
                row = int(self.clocks.current[0])
                self.interrupted(error)
                remaining = remaining[remaining.index(row) + 1 :]

    def interrupted(self, error: BaseException) -> None:
        """`run` was left by `error`: the row it was at has failed, those after it did not run."""
        row = int(self.clocks.current[0])
        if row >= 0:
            self.batch.mail[row] = Mail(fault=Fault.of(error, "step", seed=self._last_seed(row)))
            self.batch.op[row] = Op.IDLE
            self._fresh[row] = True
            self.clocks.current[0] = -1

    def call(self, rows: Iterable[int], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
        """Call a method of, or read an attribute from, the envs of `rows`; a Fault stands for a failed call."""

        def one(env: gymnasium.Env[Any, Any]) -> Any:
            attribute = env.get_wrapper_attr(name)
            return attribute(*args, **kwargs) if callable(attribute) else attribute

        return {row: self._guarded(row, one) for row in rows}

    def set_attr(self, name: str, values: dict[int, Any]) -> dict[int, Any]:
        """Set an attribute of the envs of some rows; a Fault stands for one that could not be set."""

        def one(env: gymnasium.Env[Any, Any], value: Any) -> None:
            env.set_wrapper_attr(name, value)

        return {row: self._guarded(row, one, value) for row, value in values.items()}

    def close(self) -> None:
        """Close every env. One that raises is reported as a warning, the others are closed all the same."""
        for row, env in enumerate(self.envs):
            try:
                env.close()
            except Exception as error:
                warnings.warn(f"env {self.first + row} raised in close(): {error!r}", RuntimeWarning, stacklevel=2)

    def _guarded(self, row: int, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(self.envs[row], *args)
        except _ENV_RAISED as error:
            return Fault.of(error, "call", seed=self._last_seed(row))

    def _actions(self) -> Callable[[int], Any]:
        """Reads the rows' actions from a copy, so that an env may keep its action."""
        batch = self.batch
        return batch.action_layout.reader([column.copy() for column in batch.actions])

    def _attempt(self, row: int, op: int, action: Any) -> None:
        """Begin an episode: all of a RESET, the second half of a ROLL, or all there is left of a lost row."""
        if row in self._lost:
            self._failed(row, op, self._lost[row], rebuilt=True)
            return
        try:
            info = self._begin(row)
        except _ENV_RAISED as error:
            self._failed(row, op, Fault.of(error, "reset", action, self._last_seed(row)))
            return
        if op == Op.RESET:
            self._clear(row)
        if info:
            self.batch.mail.setdefault(row, Mail()).info = info

    def _begin(self, row: int) -> dict[str, Any]:
        batch = self.batch
        seed = int(batch.seed[row])
        if seed != NO_SEED:
            batch.last_seed[row] = seed
            batch.seed[row] = NO_SEED
        options = batch.options.pop(row, None)
        result = self.envs[row].reset(seed=None if seed == NO_SEED else seed, options=options)
        try:
            obs, info = result
        except (TypeError, ValueError):
            raise SpaceError(f"reset() must return (observation, info), got {type(result).__name__}") from None
        self._write_obs(row, obs)
        return _checked_info(info)

    def _last_seed(self, row: int) -> int:
        return int(self.batch.last_seed[row])

    def _clear(self, row: int) -> None:
        batch = self.batch
        batch.reward[row] = batch.episode_return[row] = 0.0
        batch.terminated[row] = batch.truncated[row] = False
        batch.episode_length[row] = 0

    def _failed(self, row: int, op: int, fault: Fault, rebuilt: bool = False) -> None:
        """Report the fault, or build the env again and end its episode, as `on_error` says."""
        if self._on_error == "raise":
            self.batch.mail[row] = Mail(fault=fault)
            return
        policy, batch = self._policies[row], self.batch
        self._lost.pop(row, None)
        try:
            if not rebuilt:
                policy.allow(fault, self._exchanges)
                batch.restarts[row] += 1
                self._rebuild(row)
            if op != Op.RESET or batch.seed[row] == NO_SEED:
                batch.seed[row] = restart_seed(self._last_seed(row), self.first + row, int(batch.restarts[row]))
            if op == Op.ROLL and fault.phase == "step":
                for final, obs in zip(batch.final_obs, batch.obs, strict=True):
                    final[row] = obs[row]
            info = self._begin(row) if op != Op.STEP else {}
        except RestartLimit as error:
            batch.mail[row] = Mail(fault=replace(fault, error=error))
            return
        except Exception as error:
            self._failed(row, op, Fault.of(error, "make", seed=self._last_seed(row)))
            return
        self._clear(row)
        if op == Op.RESET:
            batch.mail[row] = Mail({**info, "fault": fault.as_info(self.first + row, int(batch.restarts[row]))})
            return
        batch.truncated[row] = True
        told = {"fault": fault.as_info(self.first + row, int(batch.restarts[row]))}
        batch.mail[row] = Mail(info, final_info=told) if op == Op.ROLL else Mail(told)

    def _rebuild(self, row: int) -> None:
        try:
            self.envs[row].close()
        except Exception:  # noqa: S110  # the env is being thrown away because it failed
            pass
        self.envs[row] = self._factories[row]()

    def _sample(self, row: int, nanoseconds: int) -> None:
        self.clocks.histogram[row, min(nanoseconds.bit_length(), BUCKETS - 1)] += 1
        self.clocks.total[row] += nanoseconds


def build_envs(factories: Sequence[Factory], first: int = 0) -> list[gymnasium.Env[Any, Any]]:
    """Call every factory. If one fails, those already built are closed and its EnvError is raised."""
    envs: list[gymnasium.Env[Any, Any]] = []
    try:
        for offset, factory in enumerate(factories):
            try:
                env = factory()
            except _ENV_RAISED as error:
                raise Fault.of(error, "make").to_error(first + offset) from error
            envs.append(_checked_env(env, envs, first + offset))
    except BaseException:
        for env in envs:
            _close_quietly(env)
        raise
    return envs


def _checked_env(env: Any, others: list[gymnasium.Env[Any, Any]], row: int) -> gymnasium.Env[Any, Any]:
    if not isinstance(env, gymnasium.Env):
        raise SpaceError(f"env_fns[{row}]() returned {type(env).__name__}, need a gymnasium.Env")
    for index, other in enumerate(others):
        if env is other:
            raise SpaceError(
                f"env_fns[{row - len(others) + index}] and [{row}] returned the same object; build a new env in each call"
            )
    return env


def _close_quietly(env: gymnasium.Env[Any, Any]) -> None:
    try:
        env.close()
    except Exception as error:
        warnings.warn(f"an env raised in close(): {error!r}", RuntimeWarning, stacklevel=2)


def _checked_info(info: Any) -> dict[str, Any]:
    if not isinstance(info, dict):
        raise SpaceError(f"info must be a dict, got {type(info).__name__}")
    return info


def _number(reward: Any) -> float:
    if isinstance(reward, _NUMBERS):
        return float(reward)
    if isinstance(reward, (np.ndarray, np.bool_)) and np.size(reward) == 1 and np.asarray(reward).dtype.kind in "biuf":
        return float(np.asarray(reward).reshape(()))
    raise SpaceError(f"reward must be a number, got {type(reward).__name__} {reward!r:.60}")


def _not_bools(terminated: Any, truncated: Any) -> str:
    name, value = ("terminated", terminated) if type(terminated) not in _BOOLS else ("truncated", truncated)
    return f"{name} must be a bool, got {type(value).__name__} {value!r:.60}"


def _not_five(result: Any) -> str:
    if not isinstance(result, tuple):
        return f"step() must return 5 values (obs, reward, terminated, truncated, info), got {type(result).__name__}"
    hint = "; old Gym API? wrap it, e.g. with shimmy" if len(result) == 4 else ""
    return f"step() returned {len(result)} values, 5 needed (obs, reward, terminated, truncated, info){hint}"


