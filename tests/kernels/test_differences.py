"""Where Python and native code were found, or might be thought, to differ: each is equal or refused."""

import importlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, KernelError, SpaceError
from vecenv.testing import check_kernel

TWO = spaces.Box(-np.inf, np.inf, (6,), np.float64)


def bump(board):
    board[0] += 1


def moved(s):
    s.place = (s.place + 1) % 3
    return 10


def scaled(x, factor=np.pi, times=2):
    return x * factor * times


@vecenv.kernel("Corners-v0", max_episode_steps=8)
class Corners:
    observation_space, action_space = TWO, spaces.Discrete(2)
    state = {
        "x": np.float32,
        "place": int,
        "board": (np.int64, (3,)),
        "singles": (np.float32, (4,)),
        "bytes": (np.uint8, (4,)),
        "total": float,
    }

    def reset(s, rng, p):
        s.x = rng.random()
        s.place = 0
        for index in range(4):
            s.singles[index] = rng.random()
            s.bytes[index] = rng.integers(0, 256)

    def step(s, action, rng, p):
        bump(s.board)
        row = s.board
        row[1] = row[1] + 1
        s.board[s.place] += moved(s)
        one, (s.x, two) = 1, (s.x * 1.1, 2)
        s.total = 0.0
        for value in s.singles:
            s.total += value * value
        for place, value in enumerate(s.bytes):
            s.total += (value - 200) * place
        for first, second in zip(s.bytes, s.singles):  # native code has no strict
            s.total += first * second
        drawn = rng.choice(s.singles)
        s.singles[1:] = s.singles[:-1]
        s.total += drawn * drawn + scaled(s.x) + scaled(s.x, 2.0) + s.x**2 + two**3 + one
        return s.total * s.x, False

    def observe(s, obs, p):
        obs[0], obs[1], obs[2] = s.x, s.place, s.total
        obs[3:] = s.board


def test_corners_are_equal():
    check_kernel(Corners, steps=300)


def test_squares_are_the_c_librarys_to_the_last_bit():
    values = np.random.default_rng(0).normal(size=200_000) * 10.0 ** np.random.default_rng(1).integers(-8, 8, 200_000)
    envs = vecenv.make("Squares-v0", len(values))
    envs.reset(seed=0)
    envs.state.x[:] = values
    found = envs.step(np.zeros(len(values), int))[1]
    expected = np.array([value**2 for value in values.tolist()])
    assert (expected != values * values).any()  # or the test shows nothing
    assert found.tobytes() == expected.tobytes()


@vecenv.kernel("Squares-v0")
class Squares:
    observation_space, action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)
    state = {"x": float}

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        return s.x**2, False

    def observe(s, obs, p):
        obs[0] = 0.0


def made(module):
    return vecenv.make(importlib.import_module(module).Refused, 2)


REFUSED = [
    ("y = np.float32(s.x) * 0.1\n        s.x = float(y)", "own width"),
    ("s.x = round(s.x, 2)", "digits"),
    ("s.n = ~(s.n > 1)", "~"),
    ("s.x = math.lgamma(s.x)", "last digits"),
    ("s.x = float(np.cbrt(s.x))", "last digits"),
    ("s.row = np.exp(s.row)", "math.exp"),
    ("s.row = s.row ** 3", "x \\* x"),
    ("assert rng.random() < 2.0", "assert"),
    ("assert np.add(s.row, 1.0, out=s.row).sum() > 0", "assert"),
    ("assert np.add(s.row, 1.0, s.row).sum() > 0", "assert"),
    ("assert s.row.clip(5.0, 9.0, s.row).sum() > 0", "assert"),
    ("s.row = s.row[:2]", "does not fit"),
]


@pytest.mark.parametrize(("line", "words"), REFUSED, ids=[line.split("=")[-1].strip() for line, _ in REFUSED])
def test_what_would_differ_is_refused(line, words, tmp_path, monkeypatch):
    (tmp_path / "refused.py").write_text(
        "import math\nimport numpy as np\nimport vecenv\nfrom gymnasium.spaces import Box, Discrete\n"
        "NARROW = np.array([1.0, 2.0], np.float32)\n\n\n@vecenv.kernel('Refused-v0')\nclass Refused:\n"
        "    observation_space, action_space = Box(-1, 1, (1,)), Discrete(2)\n"
        "    state = {'x': float, 'n': int, 'row': (float, 3)}\n\n"
        "    def reset(s, rng, p):\n        s.x = 0.5\n        s.n = 2\n\n"
        f"    def step(s, action, rng, p):\n        {line}\n        return s.x, False\n\n"
        "    def observe(s, obs, p):\n        obs[0] = 0.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("refused", None)
    with pytest.raises(KernelError, match=words) as caught:
        made("refused")
    sys.modules.pop("refused", None)
    assert caught.value.function == "step"


@vecenv.kernel("Sized-v0")
class Sized:
    action_space = spaces.Discrete(2)
    state = {"x": float}

    class Params:
        size = 2

    def observation_space(p):
        return spaces.Box(-9, 9, (p.size,), np.float64)

    def reset(s, rng, p):
        s.x = rng.random()

    def step(s, action, rng, p):
        return s.x, False

    def observe(s, obs, p):
        for index in range(p.size):
            obs[index] = s.x


def test_parameters_that_would_change_the_spaces_of_one_env_are_refused():
    check_kernel(Sized, size=5)
    with pytest.raises(ConfigError, match="env 2"):
        vecenv.make(Sized, 3, size=np.array([2, 2, 4]))
    envs = vecenv.make(Sized, 3)
    envs.reset(seed=0)
    with pytest.raises(ConfigError, match="spaces"):
        envs.set_attr("size", [4, 2, 2])
    before = envs.get_state().columns["P_size"].copy()
    with pytest.raises(ConfigError, match="spaces"):
        envs.reset(options={"size": 4})
    assert envs.get_state().columns["P_size"].tolist() == before.tolist() == [2, 2, 2]
    assert envs.reset(seed=1)[0].shape == (3, 2)


def too_far(obs):
    return 3 if obs[0] > 0.5 else 0


def test_a_policys_actions_are_looked_at():
    envs = vecenv.make(Squares, 4)
    envs.reset(seed=0)
    envs.rollout(policy=too_far, steps=3)
    envs = vecenv.make(Sized, 4)
    envs.reset(seed=0)
    with pytest.raises(InvalidAction, match="step 0"):
        envs.rollout(policy=too_far, steps=3)
    with pytest.raises(vecenv.errors.NotResetError):
        envs.step(np.zeros(4, int))


def test_a_subclass_is_not_its_parents_kernel():
    class Sub(Squares):
        def step(s, action, rng, p):
            return 7.0, False

    with pytest.raises(SpaceError, match="Sub"):
        vecenv.make(Sub, 2)


@pytest.mark.parametrize("limit", [0, -5, 2.7, "a"])
def test_wrong_time_limits_are_refused(limit):
    with pytest.raises(ConfigError):
        vecenv.make(Squares, 2, max_episode_steps=limit)


def test_rows_share_their_time_limit():
    with pytest.raises(ConfigError, match="same"):
        vecenv.make(Squares, 2, env_kwargs=[{"max_episode_steps": 5}, {"max_episode_steps": 10}])
    with pytest.raises(ConfigTypeError):
        vecenv.make(Squares, 2, nothing=3)


def test_copies_keep_their_spec():
    envs = vecenv.make("CartPole-v1", 2)
    assert pickle.loads(pickle.dumps(envs)).spec == envs.spec


SCRIPT = """
import numpy as np, vecenv
from gymnasium.spaces import Box, Discrete

@vecenv.kernel("Main-v0", max_episode_steps=5)
class Main:
    observation_space, action_space = Box(-9, 9, (1,), np.float64), Discrete(2)
    state = {"x": float}
    def reset(s, rng, p):
        s.x = rng.random()
    def step(s, action, rng, p):
        s.x += 0.5
        return s.x, False
    def observe(s, obs, p):
        obs[0] = s.x

results = []
for options in ({"engine": "compiled"}, {"engine": "process", "workers": 2}, {"engine": "process", "context": "spawn"}):
    with vecenv.make("Main-v0", 4, **options) as envs:
        envs.reset(seed=0)
        results.append(np.array([envs.step(np.zeros(4, int))[0] for _ in range(12)]))
assert (results[0] == results[1]).all() and (results[0] == results[2]).all()
"""


def test_a_kernel_of_a_script_runs_in_other_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
