"""The env that fails when told to: its random faults can be repeated, and its observations stay readable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vecenv.errors import ConfigError
from vecenv.testing import FaultEnv


def failing_steps(index: int = 0, reset_seed: int = 3, **options: Any) -> list[tuple[int, str]]:
    """In which of 300 steps the env failed, and how."""
    env = FaultEnv(index, env=None, length=10**6, **options)
    env.reset(seed=reset_seed)
    found = []
    for number in range(300):
        try:
            obs, reward, *_ = env.step(np.int64(number))
        except Exception as error:
            found.append((number, type(error).__name__))
        else:
            assert obs[:4].tolist() == [index, 1, number + 1, number]
            if not np.isfinite(reward):
                found.append((number, "reward"))
    return found


def test_random_faults_are_a_function_of_seed_index_and_the_seed_of_the_reset() -> None:
    mixture = {"raise": 3.0, "two-args": 1.0, "reward-nan": 1.0, "obs-inf": 1.0}
    first = failing_steps(kind=mixture, p=0.1, seed=5)
    assert first == failing_steps(kind=mixture, p=0.1, seed=5)
    others = [{"seed": 6}, {"seed": 5, "index": 1}, {"seed": 5, "reset_seed": 4}]
    assert all(first != failing_steps(kind=mixture, p=0.1, **other) for other in others)
    assert {kind for _, kind in first} == {"ValueError", "TwoArgumentsError", "reward"}
    assert 5 < len(first) < 60


def test_without_p_the_fault_comes_once_at_its_call() -> None:
    assert failing_steps(kind="raise", at=7) == [(6, "ValueError")]
    assert failing_steps(kind="none", p=1.0) == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="'explode'"):
        FaultEnv(kind={"raise": 1.0, "explode": 1.0})  # type: ignore[dict-item]
