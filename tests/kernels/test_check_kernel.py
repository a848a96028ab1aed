"""What `check_kernel` looks at besides bits: spaces, parameters within their bounds, and lines that never ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple

import vecenv
from tests.kernels.defining import imported, written
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv
from vecenv.testing import check_kernel
from vecenv.testing._check_kernel import _outside, drawn_parameters
from vecenv.testing._lines import Lines


def pushed(x, force):
    if force > 100.0:
        x = 0.0
    return x + force


@vecenv.kernel("Framed-v0", max_episode_steps=20)
class Bounded:
    """Is right with its default parameters alone: the highest push leaves the space."""

    observation_space, action_space = Box(-30.0, 30.0, (1,), np.float64), Discrete(2)
    state = {"x": float}

    class Params:
        push = 1.0
        lives = 3
        curve = np.array([1.0, 2.0])
        free = 0.5

    bounds = {"push": (0.0, 2.0), "lives": (1, None), "curve": (None, 2.0)}

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        s.x = pushed(s.x, p.push * (1.0 if action else 0.5))
        if p.lives < 0:
            s.x = -1.0
            return 0.0, True
        return s.x, False

    def observe(s, obs, p):
        obs[0] = s.x


def test_parameters_are_drawn_within_their_bounds_and_reach_both_ends():
    drawn = drawn_parameters(kernel_of(Bounded), {"curve": 1}, 50, np.random.default_rng(0))
    assert set(drawn) == {"push", "lives"}
    assert (drawn["push"].min(), drawn["push"].max()) == (0.0, 2.0)
    assert drawn["lives"].dtype == np.int64
    assert (drawn["lives"].min(), drawn["lives"].max()) == (1, 5)
    drawn = drawn_parameters(kernel_of(Bounded), {}, 3, np.random.default_rng(0))
    assert drawn["curve"].shape == (3, 2)
    assert (drawn["curve"] <= 2.0).all()


def test_spaces_that_depend_on_parameters_get_one_value_for_all_envs(tmp_path):
    members = ("def action_space(p):\n    return Discrete(int(p.size))", "class Params:\n    size = 3")
    with imported(written(tmp_path, *members, "bounds = {'size': (2, 9)}")) as module:
        drawn = drawn_parameters(kernel_of(module.Wrong), {}, 5, np.random.default_rng(0))
        assert drawn["size"].shape == ()
    configured = ("class Params:\n    size = 3", "bounds = {'size': (2, 9)}", "def configure():\n    return {}")
    with imported(written(tmp_path, *configured)) as module:
        assert drawn_parameters(kernel_of(module.Wrong), {}, 5, np.random.default_rng(0)) == {}


def test_what_native_code_refuses_is_named_as_a_mistake_of_the_kernel_and_of_no_env(tmp_path):
    grows = """
        def step(s, action, rng, p):
            items = [1]
            while items:
                items.append(s.count)
            return 0.0, False
    """
    with (
        imported(written(tmp_path, grows)) as module,
        pytest.raises(KernelError, match=r"^Wrong\.step, line \d+ of ") as caught,
    ):
        check_kernel(module.Wrong)
    assert "env 0" not in str(caught.value)
    assert "Queue(int, capacity)" in str(caught.value)


def test_lines_that_never_ran_are_named_with_their_file():
    lines, env = Lines(kernel_of(Bounded)), KernelEnv(kernel_of(Bounded))
    with lines.watched():
        env.reset(seed=0)
        env.step(1)
    text = Path(__file__).read_text().splitlines()
    helper = text.index("        x = 0.0") + 1
    method = text.index("            s.x = -1.0") + 1
    assert lines.missed() == (f"{__file__}:{helper}", f"{__file__}:{method}-{method + 1}")


def test_a_part_that_is_not_in_its_space_is_named():
    space = Dict({"pose": Box(-1.0, 1.0, (2,), np.float64), "pair": Tuple((Discrete(3), Discrete(3)))})
    good = {"pose": np.zeros(2), "pair": (np.int64(1), np.int64(2))}
    assert _outside(space, good, "obs") is None
    assert _outside(space, {**good, "pair": (np.int64(1), np.int64(7))}, "obs") == (
        "obs['pair'][1] is 7, which is not in Discrete(3)" if np.__version__ < "2" else
        "obs['pair'][1] is np.int64(7), which is not in Discrete(3)"
    )  # fmt: skip
    wrong = {**good, "pose": np.array([0.0, 1.5])}
    assert _outside(space, wrong, "obs") == "obs['pose'][1] is 1.5, outside of -1.0 ... 1.0"
    assert "nan, outside of" in str(_outside(space, {**good, "pose": np.array([0.0, np.nan])}, "obs"))
    number = Box(-1.0, 1.0, (), np.float64)
    assert _outside(number, np.float64(0.5), "obs") is None
    assert _outside(number, np.float64(1.5), "obs") == "obs is 1.5, outside of -1.0 ... 1.0"


@pytest.mark.timeout(240)  # Numba compiles the kernel
def test_an_observation_outside_its_space_is_found_with_random_parameters():
    words = r"(?s)within their bounds, push=array.*step 19 of env 1: obs\[0\] is 32.0, outside of -30.0 ... 30.0"
    with pytest.raises(AssertionError, match=words):
        check_kernel(Bounded, num_envs=4, steps=40)
    report = check_kernel(Bounded, num_envs=4, steps=40, push=0.5)
    assert report.drawn == ("lives", "curve")
    assert report.fixed == ("push", "free")
    assert report.steps == 3 * 4 * 40
    assert report.episodes > 0
    assert len(report.missed) == 2
    assert "; never run: " in str(report)
    assert "test_check_kernel.py:" in str(report)
