"""The recorder over actors: how episodes began travels with their answers, and outlives them."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

import vecenv
from tests.recording.recorded_envs import FINE, KILL, RAISE, Diary, run_again, run_kernel_again
from vecenv.errors import EnvError, WorkerDied
from vecenv.kernel.language.registry import find_kernel
from vecenv.recording import Recording

pytestmark = pytest.mark.usefixtures("cluster", "no_pauses")
COUNT = 4


def make(folder: Path, **options: object) -> vecenv.VectorEnv:
    given = {"engine": "ray", "workers": 2, "record": "last-episode", "record_folder": folder, **options}
    return vecenv.make(given.pop("env", Diary), COUNT, **given)  # type: ignore[arg-type]


def actions(number: int, wrong: int | None = None) -> np.ndarray:
    chosen = np.random.default_rng(number).integers(0, FINE, COUNT)
    if wrong is not None:
        chosen[2] = wrong
    return chosen


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_the_file_of_an_env_that_raises_in_an_actor_is_its_episode(tmp_path: Path, autoreset: str) -> None:
    with make(tmp_path, autoreset=autoreset) as envs:
        envs.reset(seed=3)
        ended = np.zeros(COUNT, np.bool_)
        number = 0
        while number < 20 or ended[2]:
            _, _, terminated, truncated, _ = envs.step(actions(number))
            ended = terminated | truncated
            number += 1
            for row in range(COUNT):
                run_again(envs.recording(row), Diary)
        with pytest.raises(EnvError) as caught:
            envs.step(actions(number, RAISE))
        recording = Recording.load(str(caught.value.recording))
    assert (recording.row, recording.engine, recording.start["kind"]) == (2, "ray", "random-state")
    assert run_again(recording, Diary) is not None


def test_a_dead_actor_leaves_the_episodes_of_its_envs(tmp_path: Path) -> None:
    with make(tmp_path, env=functools.partial(Diary, length=1e9)) as envs:
        envs.reset(seed=3)
        for number in range(3):
            envs.step(actions(number))
        with pytest.raises(WorkerDied) as caught:
            envs.step(actions(3, KILL))
        recording = Recording.load(str(caught.value.recording))
        assert recording.failure is not None
        assert (recording.row, recording.steps, recording.failure["kind"]) == (2, 4, "died")
        assert recording.start == {"kind": "seed", "seed": 5}
        assert "is not known" in recording.problems[0]
        run_again(envs.recording(3), functools.partial(Diary, length=1e9))


def test_an_actor_s_env_that_is_built_again_tells_of_its_file(tmp_path: Path) -> None:
    with make(tmp_path, on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=3)
        envs.step(actions(0))
        infos = envs.step(actions(1, RAISE))[4]
        assert run_again(Recording.load(infos["fault"]["recording"][2]), Diary) is not None
        for number in range(2, 10):
            envs.step(actions(number))
            for row in range(COUNT):
                run_again(envs.recording(row), Diary)


def test_kernels_in_actors_begin_with_their_state(tmp_path: Path) -> None:
    kernel = find_kernel("CartPole-v1")
    with make(tmp_path, env="CartPole-v1", local_engine="compiled") as envs:
        envs.reset(seed=3)
        for number in range(60):
            envs.step(actions(number) % 2)
            for row in range(COUNT):
                run_kernel_again(envs.recording(row), kernel)
