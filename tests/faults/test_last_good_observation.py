"""With on_error="restart" a step that is refused shows the last observation that was returned, not its own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import vecenv

SPACES = {
    "flat": Box(0, 100, (2,), np.float64),
    "two axes": Box(0, 100, (2, 1), np.float64),
    "dict": Dict(a=Box(0, 100, (2,), np.float64), b=Box(0, 100, (1,), np.float64)),
}
WRONG: dict[str, dict[str, Any]] = {"reward": {"reward": "x"}, "flags": {"terminated": "x"}, "info": {"info": 3}}


class Wrong(gymnasium.Env[Any, Any]):
    """Observes how many steps it made; the third step of env 1 returns something that no env may return."""

    action_space = Discrete(2)

    def __init__(self, space: str = "flat", wrong: str = "reward", fails: bool = False) -> None:
        self.observation_space = SPACES[space]
        self.wrong = WRONG[wrong] if fails else {}
        self.count = 0

    def observed(self) -> Any:
        space = self.observation_space
        if isinstance(space, Dict):
            return {key: np.full(part.shape, self.count, np.float64) for key, part in space.items()}
        return np.full(space.shape, self.count, np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self.observed(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        result = {"reward": 0.0, "terminated": False, "truncated": False, "info": {}}
        if self.count == 3:
            result |= self.wrong
        return (self.observed(), *result.values())


def first_number(obs: Any, row: int) -> float:
    part = obs["a"] if isinstance(obs, dict) else obs
    return float(np.ravel(part[row])[0])


CASES = [(engine, space, wrong) for engine in ("sync", "thread", "asyncio") for space in SPACES for wrong in WRONG]


@pytest.mark.parametrize(("engine", "space", "wrong"), [*CASES, ("process", "flat", "flags")])  # the row loop of sync
def test_a_refused_step_shows_the_last_good_observation(engine: str, space: str, wrong: str) -> None:
    options: dict[str, Any] = {"workers": 1} if engine in ("thread", "process") else {}
    kwargs = [{"space": space, "wrong": wrong, "fails": row == 1} for row in range(5)]
    with vecenv.make(Wrong, 5, engine=engine, on_error="restart", env_kwargs=kwargs, **options) as envs:  # type: ignore[arg-type]
        envs.reset(seed=0)
        for _ in range(3):
            obs, _, _, truncated, infos = envs.step(np.zeros(5, np.int64))
        assert truncated.tolist() == [False, True, False, False, False]
        assert "fault" in infos
        assert [first_number(obs, row) for row in range(5)] == [3.0, 2.0, 3.0, 3.0, 3.0]


def test_bytes_are_no_observation_of_a_flat_box() -> None:
    class Bytes(Wrong):
        observation_space = Box(0, 255, (2,), np.uint8)

        def observed(self) -> Any:
            return bytes(2)

        def __init__(self) -> None:
            self.wrong, self.count = {}, 0

    with vecenv.make(Bytes, 4, engine="sync") as envs, pytest.raises(vecenv.errors.EnvError) as caught:
        envs.reset(seed=0)
    assert "memoryview" not in str(caught.value)
