"""An env whose observations identify each transition, and that fails on request."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, get_args

import gymnasium
import numpy as np

from vecenv.errors import ConfigError
from vecenv.testing._fault_kinds import FAILURES, KINDS, SPOILERS

Where = Literal["make", "reset", "step", "call", "close"]


class FaultEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Observations contain their origin, so that a stale, torn or misrouted row is found by arithmetic.

    The observation is `(index, episode, step, last action, noise)`: `episode` counts the resets of this object, `step`
    the steps since the last of them, `noise` is drawn from `np_random` with every observation. The reward is `1000 *
    index + step`. Episodes end after `length + index` steps. A fault changes none of these, unless the fault is a wrong
    observation or reward.

    With `p` faults are random: each call of `where` fails with this probability. The random stream depends on `seed`,
    the index and the seed of the last seeded reset, so a run can be repeated, and an env that is built again with a new
    seed does not fail at the same call again. Random faults of "make" are the same each time the env is built.

    Args:
        index: number of the env.
        kind: kind of fault, such as "raise", "kill", "hang" or "obs-nan" (the error about an unknown one lists all); or
            several kinds with their weights.
        where: the method that fails.
        at: the number of the call of that method that fails, counted for this object.
        env: index of the env that fails, None for all.
        length: steps of an episode of env 0.
        seconds: duration of a hang, and lifetime of a child process.
        talks: whether infos are `{"at": step}` rather than empty.
        fuse: a path; the fault happens only if this file does not exist, and creates it. So it happens once, however
            often the env is built again.
        p: probability of a fault in each call, instead of `at`.
        seed: seed of the random faults.
        pause: mean duration of a "slow" call in seconds, distributed exponentially.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium reads it from the class

    def __init__(
        self,
        index: int = 0,
        kind: str | Mapping[str, float] = "none",
        where: Where = "step",
        at: int = 1,
        env: int | None = 1,
        length: int = 5,
        seconds: float = 60.0,
        talks: bool = False,
        fuse: str | None = None,
        p: float | None = None,
        seed: int = 0,
        pause: float = 0.005,
    ) -> None:
        kinds = {kind: 1.0} if isinstance(kind, str) else dict(kind)
        for name in kinds:
            if name not in KINDS:
                raise ConfigError(f"kind must be one of {', '.join(KINDS)}; got {name!r}")
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(1000)
        self.index, self.length, self.seconds, self.pause = index, length, seconds, pause
        self.talks, self.fuse, self.where, self.at, self.p, self.seed = talks, fuse, where, at, p, seed
        self.fails = (env is None or index == env) and list(kinds) != ["none"]
        self.kinds = list(kinds)
        self.weights = np.array(list(kinds.values())) / sum(kinds.values())
        self.episode = self.steps = 0
        self.last_action = -1
        self.children: list[subprocess.Popen[bytes]] = []
        self.chance = np.random.default_rng([seed, index])
        self._calls = dict.fromkeys(get_args(Where), 0)
        self._fail_if_due("make")

    @classmethod
    def many(cls, count: int, **options: Any) -> list[partial[FaultEnv]]:
        """Factories of `count` envs; the options say which of them fail."""
        return [partial(cls, index, **options) for index in range(count)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None and self.p is not None:
            self.chance = np.random.default_rng([self.seed, self.index, seed])
        self.episode += 1
        self.steps, self.last_action = 0, -1
        kind = self._fail_if_due("reset")
        return _faulty(kind, {"obs": self._observation(), "info": self._info()})

    def step(self, action: np.int64) -> Any:
        """Count a step."""
        self.steps += 1
        self.last_action = int(action)
        kind = self._fail_if_due("step")
        return _faulty(
            kind,
            {
                "obs": self._observation(),
                "reward": 1000.0 * self.index + self.steps,
                "terminated": self.steps >= self.length + self.index,
                "truncated": False,
                "info": self._info(),
            },
        )

    def poke(self, value: int = 0) -> int:
        """A method for `call`: returns the env's index plus `value`."""
        self._fail_if_due("call")
        return self.index + value

    def arm(self, kind: str = "none", where: Where = "step", at: int = 1, env: int = 1, seconds: float = 60.0) -> None:
        """A method for `call`: set the fault to this one, in the `at`-th such call from now."""
        self.fails, self.kinds, self.where, self.at, self.seconds = self.index == env, [kind], where, at, seconds
        self._calls[where] = 0

    def worker_pid(self) -> int:
        """The id of the process that runs this env."""
        return os.getpid()

    def close(self) -> None:
        """Close, or fail to."""
        self._fail_if_due("close")

    def _observation(self) -> np.ndarray:
        noise = self.np_random.random()
        return np.array([self.index, self.episode, self.steps, self.last_action, noise])

    def _info(self) -> dict[str, Any]:
        return {"at": self.steps} if self.talks else {}

    def _fail_if_due(self, where: str) -> str | None:
        """Count a call, and fail if the fault is due. Returns the kind of a fault that did not end the call."""
        self._calls[where] += 1
        if not (self.fails and self.where == where and self._due(where) and self._fuse_allows()):
            return None
        kind = self.kinds[0] if len(self.kinds) == 1 else self.chance.choice(self.kinds, p=self.weights)
        if kind in FAILURES:
            FAILURES[kind](self)
        return kind

    def _due(self, where: str) -> bool:
        return self._calls[where] == self.at if self.p is None else self.chance.random() < self.p

    def _fuse_allows(self) -> bool:
        if self.fuse is None:
            return True
        try:
            os.close(os.open(self.fuse, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _faulty(kind: str | None, result: dict[str, Any]) -> Any:
    """The values of a result, or the wrong result of this kind of fault."""
    return SPOILERS[kind](result) if kind in SPOILERS else tuple(result.values())
