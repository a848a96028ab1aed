"""Arrays that methods of `rng` return: Python, native code and plain NumPy draw the same bits."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.kernels.defining import imported, written
from tests.kernels.emitted import EmittedEnv
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv

VALUES = {
    "x": np.array([0.5, -1.0, 2.0, 3.25]),
    "m": np.arange(12.0).reshape(3, 4) / 3,
    "c": np.array([3, -1, 7, 5], np.int8),
    "q": np.array([True, False, True, True]),
    "n": 3,
    "a": 0.25,
}
BEFORE = """
MOVES = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)], np.int8)
WAYS = ((0, 1), (1, 0), (2, 2))
WEIGHTS = np.array([0.5, 0.25, 0.25])

def noise(rng, size, scale=1.0):
    return scale * rng.standard_normal(size)

def dealt(rng, cards):
    deck = rng.permutation(cards)
    return deck[:2].copy()
"""
DRAWS = """
rng.random(3); rng.random((2, 3)); rng.random(size=4); rng.random(len(s.x)); rng.random(s.m.shape)
rng.random(size=None); rng.uniform(-1.0, 1.0, 3); rng.uniform(-1.0, 1.0, size=(2, 2)); rng.uniform(high=2.0, size=3)
rng.uniform(size=2); rng.uniform(s.a, 2.0 + s.a, size=3); rng.integers(5, size=3); rng.integers(0, 7, (2, 3))
rng.integers(1, 6, size=4, endpoint=True); rng.integers(3, None, 2); rng.integers(-2, s.n + 9, size=3)
rng.integers(1, 6, endpoint=True); rng.normal(size=3); rng.normal(1.0, 2.0, (2, 2)); rng.normal(s.a, size=2)
rng.standard_normal(3); rng.standard_normal((2, 2)); rng.exponential(2.0, 3); rng.exponential(size=2)
rng.standard_exponential(3); rng.poisson(3.0, 4); rng.poisson(size=2); rng.binomial(9, 0.3, 3); rng.geometric(0.2, 3)
rng.multinomial(9, (0.2, 0.3, 0.5)); rng.multinomial(s.n, WEIGHTS); rng.choice(5, 3); rng.choice(5, size=(2, 2))
rng.choice(5, 3, False); rng.choice(9, size=4, replace=False); rng.choice(6, size=(2, 2), replace=False)
rng.choice(3, size=4, p=(0.5, 0.25, 0.25)); rng.choice(3, 2, replace=False, p=[0.5, 0.25, 0.25])
rng.choice(9, replace=False); rng.choice(3, None, False, (0.5, 0.25, 0.25)); rng.choice((3, 5, 8))
rng.choice((0.5, 2)); rng.choice([0.5, 2], size=3); rng.choice(s.c, 3); rng.choice(s.c)
rng.choice(s.c, size=2, replace=False); rng.choice(s.c[:3], p=WEIGHTS); rng.choice(s.m); rng.choice(s.m, size=2)
rng.choice(s.m, p=WEIGHTS); rng.choice(WAYS); rng.choice(MOVES); rng.choice(MOVES, size=2, replace=False)
rng.choice(np.flatnonzero(s.q)); rng.choice(np.argwhere(s.m > 1)); rng.choice(s.x[s.x > 0], size=2)
rng.choice(s.x[::-1], 3); rng.choice(3, size=2, p=s.m[0, :3] * 3 / 3); rng.permutation(5); rng.permutation(len(s.x))
rng.permutation(s.c); rng.permutation(s.m); rng.permutation((3, 1, 2)); rng.permutation(s.x * 2)
rng.permutation(s.x[::-1]); rng.permutation(s.m.T); rng.random(3) * 2 + rng.random(3)
np.where(rng.random(4) < 0.5, -1, 1); rng.normal(size=3).sum(); rng.integers(0, 9, size=9).max()
(rng.random((2, 2)) < 0.5) & (rng.random((2, 2)) < 0.5); noise(rng, 3); noise(rng, (2, 2), 0.5); dealt(rng, s.c)
dealt(rng, MOVES); np.concatenate((rng.permutation(3), rng.permutation(3))); s.m[rng.integers(3)]
"""
SOME = """
rng.random((2, 3)); rng.integers(1, 6, size=4, endpoint=True); rng.choice(9, size=4, replace=False)
rng.choice(np.argwhere(s.m > 1)); rng.permutation(s.c); rng.choice(s.c, 3); rng.permutation(5)
"""


def pairs(s, rng):
    """Draws in statements."""
    hand = np.arange(6)
    rng.shuffle(hand)
    s.hand = hand
    rng.shuffle(hand[1:4])
    s.hand += 10 * hand
    for _ in range(3):
        hand = rng.permutation(hand[::-1])
        s.hand += hand
    rows = s.rows.copy()
    rng.shuffle(rows)
    s.rows = rows + rng.integers(0, 3, size=(3, 2))
    rng.shuffle(s.rows.T)
    free = np.flatnonzero(s.hand % 2 == 0)
    rng.shuffle(free)
    if len(free) > 1:
        s.hand[free[:2]] = -1
        s.hand[free] += rng.integers(0, 50, size=len(free))
    rng.random(out=s.wide)
    y, x = rng.choice(np.argwhere(s.rows > 0))
    s.rows[y, x] = -7
    s.rows[rng.choice(np.argwhere(s.rows < 9))[0]] += 1
    more = rng.permutation(s.hand[s.hand > 3])
    s.hand[: len(more)] = more


def listed(text):
    return [part.strip() for line in text.splitlines() for part in line.split(";") if part.strip()]


def plain_values():
    return SimpleNamespace(**{name: value.copy() if np.ndim(value) else value for name, value in VALUES.items()})


def names():
    found = {"np": np}
    exec(BEFORE, found)
    return found


def by_numpy(expressions, seed):
    """What NumPy draws for each expression, one after the other from one stream."""
    rng, _ = gymnasium.utils.seeding.np_random(seed)
    return [np.asarray(eval(one, {**names(), "s": plain_values(), "rng": rng})) for one in expressions]


def kernel_of_draws(path, expressions):
    types = {name: f"(np.{np.asarray(value).dtype}, {np.shape(value)})" for name, value in VALUES.items()}
    types |= {"n": "int", "a": "float"}
    for place, drawn in enumerate(by_numpy(expressions, 0)):
        types[f"r{place}"] = f"(np.dtype('{drawn.dtype}'), {drawn.shape})" if drawn.shape else f"np.{drawn.dtype}"
    state = ", ".join(f"'{name}': {text}" for name, text in types.items())
    lines = [f"    s.{name} = {value.tolist()}" for name, value in VALUES.items() if np.ndim(value)]
    lines = [*lines, "    s.n = 3", "    s.a = 0.25"]
    lines += [f"    s.r{place} = {expression}" for place, expression in enumerate(expressions)]
    return written(
        path,
        f"state = {{{state}}}",
        "def reset(s, rng, p):\n" + "\n".join(lines),
        "def step(s, action, rng, p):\n    return 0.0, False",
        "def observe(s, obs, p):\n    pass",
        before=BEFORE,
    )


def assert_drawn(expressions, seed, found, who):
    for place, (expression, wanted) in enumerate(zip(expressions, by_numpy(expressions, seed), strict=True)):
        mine = np.asarray(found(f"r{place}"), wanted.dtype).reshape(wanted.shape)
        assert mine.tobytes() == wanted.tobytes(), (who, expression, wanted, mine)


def test_arrays_are_drawn_in_python_and_as_loops_as_by_numpy(tmp_path):
    expressions = listed(DRAWS)
    with imported(kernel_of_draws(tmp_path, expressions)) as module:
        kernel = kernel_of(module.Wrong)
        python, loops = KernelEnv(kernel), EmittedEnv(kernel)
        for seed in range(20):
            python.reset(seed=seed)
            loops.reset(seed)
            assert_drawn(expressions, seed, lambda name: getattr(python.state, name), "Python")
            assert_drawn(expressions, seed, lambda name: loops.state[name], "loops")


@pytest.mark.timeout(300)
def test_arrays_of_every_kind_are_drawn_in_native_code_as_by_numpy(tmp_path):
    compare_native_code(listed(SOME), tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(8))
def test_arrays_are_drawn_in_native_code_as_by_numpy(part, tmp_path):
    compare_native_code(listed(DRAWS)[part::8], tmp_path)


def compare_native_code(expressions, tmp_path):
    with imported(kernel_of_draws(tmp_path, expressions)) as module:
        envs = vecenv.make(module.Wrong, 50, engine="compiled", workers=1)
        envs.reset(seed=100)
        for row in range(50):
            assert_drawn(expressions, 100 + row, lambda name, row=row: getattr(envs.state, name)[row], "native")
        envs.close()


SHAPES = {"hand": (np.int64, (6,)), "rows": (np.int64, (3, 2)), "wide": (np.float64, (5,))}


def kernel_of_pairs(path):
    return written(
        path,
        "state = {'hand': (int, 6), 'rows': (int, (3, 2)), 'wide': (float, 5)}",
        "def reset(s, rng, p):\n    s.hand[:] = 0\n    s.rows[:] = 0\n    pairs(s, rng)\n    pairs(s, rng)",
        "def step(s, action, rng, p):\n    return 0.0, False",
        "def observe(s, obs, p):\n    pass",
        before=f"from {__name__} import pairs",
    )


def run_plainly(seed):
    class Plain:
        def __init__(self):
            self.__dict__.update({name: np.zeros(shape, dtype) for name, (dtype, shape) in SHAPES.items()})

        def __setattr__(self, name, value):
            self.__dict__[name][...] = value

    state, (rng, _) = Plain(), gymnasium.utils.seeding.np_random(seed)
    pairs(state, rng)
    pairs(state, rng)
    return state


def assert_same_state(seed, found, who):
    wanted = run_plainly(seed)
    for name in SHAPES:
        assert np.array_equal(getattr(wanted, name), found(name)), (who, seed, name)


def test_local_arrays_are_shuffled_in_python_and_as_loops_as_by_numpy(tmp_path):
    with imported(kernel_of_pairs(tmp_path)) as module:
        kernel = kernel_of(module.Wrong)
        python, loops = KernelEnv(kernel), EmittedEnv(kernel)
        for seed in range(20):
            python.reset(seed=seed)
            loops.reset(seed)
            assert_same_state(seed, lambda name: getattr(python.state, name), "Python")
            assert_same_state(seed, lambda name: loops.state[name], "loops")


@pytest.mark.timeout(300)
def test_local_arrays_are_shuffled_in_native_code_as_by_numpy(tmp_path):
    with imported(kernel_of_pairs(tmp_path)) as module:
        envs = vecenv.make(module.Wrong, 50, engine="compiled", workers=1)
        envs.reset(seed=100)
        for row in range(50):
            assert_same_state(100 + row, lambda name, row=row: getattr(envs.state, name)[row], "native")
        envs.close()
