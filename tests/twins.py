"""Small envs whose every value depends on seed and actions, and an equality that looks at types, dtypes and values."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import Space, spaces

import vecenv
from vecenv.engines import registry

ENGINES = ("sync", "thread", "process")
on_every_engine = pytest.mark.parametrize("engine", ENGINES)


def mostly_on_sync(test: Any) -> Any:
    """Run a test on every engine: on sync with all other parameters, elsewhere `make test` tries one case in six.

    For what the front decides, whichever engine is behind it.
    """
    return pytest.mark.mostly_on_sync(on_every_engine(test))


def options_of(engine: str, workers: int = 2) -> dict[str, Any]:
    """Workers and forked processes, which start in milliseconds, where the engine has such options."""
    wanted: dict[str, Any] = {"workers": workers, "context": "fork"}
    return {name: value for name, value in wanted.items() if engine in registry.having(name)}


def make(engine: str, env: Any, num_envs: int = 4, **kwargs: Any) -> vecenv.VectorEnv:
    """`vecenv.make` with two workers, and forked processes."""
    if isinstance(env, list):
        num_envs = len(env)
    return vecenv.make(env, num_envs, engine=engine, **{**options_of(engine, min(2, num_envs)), **kwargs})


def fingerprint(value: Any) -> int:
    """A number that changes with type, dtype, shape or content of an action."""
    return zlib.crc32(repr(_canonical(value)).encode())


def _canonical(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return "dict", sorted((key, _canonical(item)) for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [_canonical(item) for item in value]
    return type(value).__name__, value


class SampleEnv(gymnasium.Env):
    """Observations are drawn from the seeded observation space, rewards tell which action arrived.

    Args:
        shortest: episodes last this many steps or up to four more; every other one ends by truncation.
    """

    metadata = {"render_modes": []}

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], shortest: int = 5) -> None:
        self.observation_space = copy.deepcopy(observation_space)
        self.action_space = copy.deepcopy(action_space)
        self.shortest = shortest
        self.left = 0
        self.episodes = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.left = self.shortest + int(self.np_random.integers(5))
        self.episodes += 1
        return self.observation_space.sample(), {"episode": self.episodes, "nested": {"left": float(self.left)}}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        over, number = self.left <= 0, fingerprint(action)
        info = {"action": number, "even": number} if number % 2 == 0 else {"action": number}
        return (
            self.observation_space.sample(),
            number / 7,
            over and self.episodes % 2 == 0,
            over and self.episodes % 2 == 1,
            info,
        )


class Letters(Space[Any]):
    """A custom space: a mutable list of one to four letters."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def sample(self, mask: Any = None, probability: Any = None) -> list[str]:
        return list("".join(self.np_random.choice(list("abcd"), size=self.np_random.integers(1, 5))))

    def contains(self, x: Any) -> bool:
        return isinstance(x, list) and 1 <= len(x) <= 4 and set(x) <= set("abcd")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letters)

    __hash__ = None  # type: ignore[assignment]  # like Gymnasium's own spaces


SPACES: dict[str, Space[Any]] = {
    "box-float32": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "box-float64": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
    "box-float16": spaces.Box(-1.0, 1.0, (3,), np.float16),
    "box-int8": spaces.Box(-100, 100, (2,), np.int8),
    "box-int64": spaces.Box(-(2**40), 2**40, (2,), np.int64),
    "box-uint8-image": spaces.Box(0, 255, (6, 5, 3), np.uint8),
    "box-bool": spaces.Box(0, 1, (3,), np.bool_),
    "box-scalar": spaces.Box(-1.0, 1.0, (), np.float32),
    "box-empty": spaces.Box(-1.0, 1.0, (0,), np.float32),
    "box-empty-2d": spaces.Box(-1.0, 1.0, (3, 0), np.float32),
    "discrete": spaces.Discrete(5),
    "discrete-start": spaces.Discrete(5, start=-2),
    "multidiscrete": spaces.MultiDiscrete([2, 3, 4]),
    "multidiscrete-2d": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multidiscrete-start": spaces.MultiDiscrete([2, 3], start=[5, -1]),
    "multibinary": spaces.MultiBinary(4),
    "multibinary-2d": spaces.MultiBinary((2, 3)),
    "dict": spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (2, 2, 1), np.uint8),
            "inner": spaces.Dict({"speed": spaces.Box(-1, 1, (), np.float64), "gear": spaces.Discrete(3)}),
            "pair": spaces.Tuple((spaces.MultiBinary(2), spaces.Discrete(2, start=1))),
        }
    ),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2]))))),
    "text": spaces.Text(8),
    "oneof": spaces.OneOf((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))),
    "sequence": spaces.Sequence(spaces.Box(-1, 1, (2,))),
    "sequence-stacked": spaces.Sequence(spaces.Box(-1, 1, (2,)), stack=True),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    "custom": Letters(),
    "dict-with-objects": spaces.Dict({"word": spaces.Text(4), "place": spaces.Box(-1, 1, (2,)), "parts": Letters()}),
    "tuple-of-texts": spaces.Tuple((spaces.Text(3), spaces.Text(3))),
}
PLAIN = spaces.Discrete(3)


def assert_same(ours: Any, theirs: Any, where: str = "result") -> None:
    """Equal in structure, type, dtype, shape and every value; NaN equals NaN.

    Single numbers are compared by value alone: one that went through a column is no longer Python's or NumPy's.
    """
    if isinstance(theirs, (int, float, np.number, np.bool_)) or (isinstance(theirs, np.ndarray) and not theirs.shape):
        assert not np.shape(ours), f"{where}: {ours!r} != {theirs!r}"
        assert ours == theirs or (ours != ours and theirs != theirs), f"{where}: {ours!r} != {theirs!r}"
    elif isinstance(theirs, np.ndarray):
        assert isinstance(ours, np.ndarray), f"{where}: {type(ours)} is not an array"
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), where
        if theirs.dtype == object:
            for index, pair in enumerate(zip(ours.tolist(), theirs.tolist(), strict=True)):
                assert_same(*pair, f"{where}[{index}]")
        else:
            np.testing.assert_array_equal(ours, theirs, where)
    elif isinstance(theirs, Mapping):
        assert isinstance(ours, Mapping), f"{where}: {ours!r} is no mapping"
        assert set(ours) == set(theirs), f"{where}: {ours!r} != {theirs!r}"
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (tuple, list)):
        assert (type(ours), len(ours)) == (type(theirs), len(theirs)), f"{where}: {ours!r} != {theirs!r}"
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_same(*pair, f"{where}[{index}]")
    else:
        assert (type(ours), ours) == (type(theirs), theirs), f"{where}: {ours!r} != {theirs!r}"
