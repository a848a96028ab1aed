"""An env that tells exactly which transition it returns, and that fails when told to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, get_args

import gymnasium
import numpy as np

from vecenv.errors import ConfigError
from vecenv.testing._fault_kinds import FAILURES, SPOILERS, Kind

Where = Literal["make", "reset", "step", "call", "close"]


class FaultEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Observations say where they come from, so a stale, torn or misrouted row is found by arithmetic.

    The observation is `(index, episode, step, last action, noise)`: `episode` counts the resets of this object, `step`
    those since the last of them, `noise` is drawn from `np_random` with every observation. The reward is
    `1000 * index + step`. Episodes end after `length + index` steps. What goes wrong changes none of these, unless it
    is a wrong observation or reward.

    With `p` faults are random: each call of `where` fails with this probability. The random stream is a function of
    `seed`, the index and the seed of the last seeded reset, so a run can be repeated, and an env that is built again
    and gets a new seed does not fail at the same call again. Random faults of "make" are the same in every life.

    Args:
        index: number of the env.
        kind: what goes wrong; or a mixture, the weight of each kind.
        where: in which call.
        at: in the how manyth such call of this object.
        env: index of the env in which it goes wrong, None for all.
        length: steps of an episode of env 0.
        seconds: how long a hang takes, and a child lives.
        talks: infos are `{"at": step}`; else they are empty.
        fuse: a path; it goes wrong only while no such file exists, and then the file is made. So a fault happens once,
            however often the env is built again.
        p: probability of a fault in each call, instead of `at`.
        seed: of the faults.
        pause: mean seconds of a "slow" call; they are distributed exponentially.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium reads it from the class

    def __init__(
        self,
        index: int = 0,
        kind: Kind | Mapping[Kind, float] = "none",
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
            if name not in get_args(Kind):
                raise ConfigError(f"kind must be one of {', '.join(get_args(Kind))}; got {name!r}")
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
        """Factories of `count` envs, of which one fails, or each."""
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
        return _spoilt(kind, {"obs": self._observation(), "info": self._info()})

    def step(self, action: np.int64) -> Any:
        """Count a step."""
        self.steps += 1
        self.last_action = int(action)
        kind = self._fail_if_due("step")
        return _spoilt(
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
        """Something to `call`: answers with the env's index plus `value`."""
        self._fail_if_due("call")
        return self.index + value

    def arm(self, kind: Kind = "none", where: Where = "step", at: int = 1, env: int = 1, seconds: float = 60.0) -> None:
        """Something to `call`: from now on go wrong like this, in the `at`-th such call from now."""
        self.fails, self.kinds, self.where, self.at, self.seconds = self.index == env, [kind], where, at, seconds
        self._calls[where] = 0

    def worker_pid(self) -> int:
        """The process this env lives in."""
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
        """Count a call, and fail if it is time for that. Returns the kind of a fault that did not end the call."""
        self._calls[where] += 1
        if not (self.fails and self.where == where and self._due(where) and self._lit()):
            return None
        kind = self.kinds[0] if len(self.kinds) == 1 else self.chance.choice(self.kinds, p=self.weights)
        if kind in FAILURES:
            FAILURES[kind](self)
        return kind

    def _due(self, where: str) -> bool:
        return self._calls[where] == self.at if self.p is None else self.chance.random() < self.p

    def _lit(self) -> bool:
        if self.fuse is None:
            return True
        try:
            os.close(os.open(self.fuse, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _spoilt(kind: str | None, result: dict[str, Any]) -> Any:
    """The values of a result, or what is returned in their stead."""
    return SPOILERS[kind](result) if kind in SPOILERS else tuple(result.values())
