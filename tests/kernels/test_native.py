"""Native code does what Python does: language, spaces, random numbers, calls."""

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.kernels.native_kernels import ALL, Draws, Helpers, Nested, Push, Torture, Walk
from vecenv.errors import (
    ClosedError,
    ConfigTypeError,
    EngineRefused,
    InvalidAction,
    KernelError,
    NotResetError,
    UnsupportedError,
)
from vecenv.kernel import kernel_of
from vecenv.testing import check_kernel
from vecenv.testing._check_kernel import _compare, _same
from vecenv.testing._difference import difference


def equal(one, other):
    """Nested results, bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)) or (isinstance(one, np.ndarray) and one.dtype == object):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if one is None or other is None:
        return one is other
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def pair(definition, count, **options):
    return (
        vecenv.make(definition, count, engine="sync", **options),
        vecenv.make(definition, count, engine="compiled", **options),
    )


@pytest.mark.parametrize("definition", ALL, ids=lambda definition: definition.__name__)
def test_native_code_is_bit_equal_to_python(definition):
    check_kernel(definition, steps=400)


def test_check_kernel_finds_a_difference():
    python, native = pair(Walk, 2)
    native.engine.parameters["speed"][1] = native.engine._columns["P_speed"][1] = 0.2
    with pytest.raises(AssertionError, match=r"step 0: obs\[1\].*: Python \S+, native \S+$"):
        _compare(python, native, 5, 0, None)


def test_check_kernel_ignores_the_order_of_keys():
    one, other = {"a": np.zeros(1), "b": np.ones(1)}, {"b": np.ones(1), "a": np.zeros(1)}
    _same("reset", (one, {}), (other, {}), None)
    with pytest.raises(AssertionError, match=r"obs\['b'\]\[0\]: Python 1.0, native 0.0"):
        _same("reset", (one, {}), ({**other, "b": np.zeros(1)}, {}), None)
    assert difference(one, other, "obs") == ("obs", "keys ['a', 'b']", "keys ['b', 'a']")


def test_draws_are_numpys_over_a_hundred_thousand():
    seeds = [0, 1, 2**32 - 1, 2**32, 2**63 - 1]
    envs = vecenv.make(Draws, len(seeds), autoreset="same-step", max_episode_steps=10**6)
    envs.reset(seed=seeds)
    references = [gymnasium.utils.seeding.np_random(seed)[0] for seed in seeds]
    for row, generator in enumerate(references):
        assert envs.state.drawn[row, 0] == generator.random()
    table, weights = np.array([3.0, 1.0, 4.0, 1.0, 5.0]), np.array([0.2, 0.5, 0.3])
    for _ in range(1500):
        obs, reward, terminated, *_ = envs.step(np.zeros(len(seeds), int))
        for row, generator in enumerate(references):
            drawn = [generator.random(), generator.uniform(-3.0, 5.0), generator.integers(10)]
            drawn += [generator.integers(-5, 2**40), generator.normal(1.0, 2.0), generator.choice(13)]
            drawn += [generator.choice(table), generator.choice(3, p=weights)]
            order = generator.permutation(6)
            drawn.append(order[0] + 10 * order[5])
            generator.shuffle(order)
            drawn += [order[1], generator.normal(), generator.integers(0, 2)]
            assert reward[row] == generator.uniform()
            ended = generator.random() < 0.05
            assert terminated[row] == ended
            if ended:
                generator.random()
            else:
                assert obs[row].tolist() == drawn


def test_envs_without_a_seed_are_random_and_say_their_seed():
    one, other = (vecenv.make(Walk, 4).reset()[0] for _ in range(2))
    assert not np.array_equal(one, other)
    assert len(np.unique(one)) == 4
    envs = vecenv.make(Walk, 3)
    envs.reset(seed=7)
    assert envs.np_random_seed == (7, 8, 9)
    assert envs.np_random[1].random() == envs.engine.copy_of(1).np_random.random()


@pytest.mark.parametrize("autoreset", ["next-step", "same-step", "disabled"])
@pytest.mark.parametrize("definition", [Walk, Helpers, Nested], ids=lambda definition: definition.__name__)
def test_parts_masks_and_totals_equal_the_sync_engines(definition, autoreset):
    """Partial steps, partial resets, send and recv, in an order drawn at random."""
    python, native = pair(definition, 6, autoreset=autoreset)
    generator = np.random.default_rng(0)
    assert equal(python.reset(seed=3), native.reset(seed=3))
    python.single_action_space.seed(0)
    done = np.zeros(6, bool)
    for turn in range(200):
        if autoreset == "disabled" and done.any():
            options = {"reset_mask": done.copy()}
            assert equal(python.reset(options=options), native.reset(options=options)), turn
            assert options["reset_mask"] is not None
        ids = generator.permutation(6)[: generator.integers(1, 7)]
        actions = [python.single_action_space.sample() for _ in ids]
        kind = generator.integers(3)
        if kind == 0:
            one, other = python.step(actions, ids), native.step(actions, ids)
            assert equal(one, other), turn
            done[ids] = one[2] | one[3]
        elif kind == 1:
            for envs in (python, native):
                envs.send(actions, ids)
            one, other = python.recv(len(ids)), native.recv(len(ids))
            assert equal(tuple(one), tuple(other)), turn
            assert equal(one.next_obs, other.next_obs)
            assert equal(one.valid, other.valid)
            assert equal((one.episode_return, one.episode_length), (other.episode_return, other.episode_length))
            done[one.env_ids] = one.done
        else:
            actions = [python.single_action_space.sample() for _ in range(6)]
            if autoreset == "disabled" and done.any():
                continue
            one, other = python.step(actions), native.step(actions)
            assert equal(one, other), turn
            done = one[2] | one[3]
        if autoreset != "disabled":
            done[:] = False
        assert equal(python.episode_return, native.episode_return)
        assert equal(python.episode_length, native.episode_length)


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_reset_options_hold_for_one_episode(autoreset):
    python, native = pair(Walk, 4, autoreset=autoreset, speed=np.array([0.1, 0.2, 0.3, 0.4]))
    options = [{"speed": 0.5}, None, {"spread": 0.4, "speed": 0.25}, {}]
    assert equal(python.reset(seed=0, options=options), native.reset(seed=0, options=options))
    for turn in range(120):
        actions = np.full(4, turn % 5 != 0, int)
        assert equal(python.step(actions), native.step(actions)), turn
    assert native.get_attr("speed") == (0.1, 0.2, 0.3, 0.4)


def test_a_parameter_that_is_set_holds_from_the_next_episode_on():
    envs = vecenv.make(Walk, 2, autoreset="same-step")
    envs.reset(seed=0)
    before = envs.state.x.copy()
    envs.set_attr("speed", [0.5, 0.25])
    envs.step(np.ones(2, int))
    assert envs.state.x.tolist() == (before + 0.1).tolist()
    envs.reset(options={"reset_mask": np.array([True, False])})
    before = envs.state.x.copy()
    envs.step(np.ones(2, int))
    assert envs.state.x.tolist() == (before + np.array([0.5, 0.1])).tolist()


def test_parameters_may_be_arrays_of_another_shape_and_differ_per_env():
    limits = np.array([[1.0, 9.0, 5.0], [2.0, 0.5, 5.0], [0.0, 1.0, 5.0]])
    check_kernel(Helpers, num_envs=3, limits=limits, size=np.array([0.1, 0.2, 0.3]))
    rows = [{"size": 0.1}, {"size": 0.2}]
    python, native = pair(Helpers, 2, env_kwargs=rows)
    assert equal(python.reset(seed=0), native.reset(seed=0))
    assert equal(python.step([1, -1]), native.step([1, -1]))


def test_wrong_parameters_are_refused():
    with pytest.raises(ConfigTypeError, match="did you mean 'speed'"):
        vecenv.make(Walk, 2, sped=0.3)
    with pytest.raises(ConfigTypeError, match="speed"):
        vecenv.make(Walk, 2, speed="fast")


@pytest.mark.parametrize("wrong", [2, -1, 10**12])
def test_a_wrong_action_changes_nothing(wrong):
    envs = vecenv.make(Walk, 3000)
    envs.reset(seed=0)
    actions = np.zeros(3000, np.int64)
    envs.step(actions)
    before = envs.get_state()
    actions[2999] = wrong
    with pytest.raises(InvalidAction, match="env 2999"):
        envs.step(actions)
    assert all(equal(envs.get_state().columns[name], column) for name, column in before.columns.items())
    envs.step(np.zeros(3000, np.int64))


def test_actions_that_are_not_finite_are_refused():
    envs = vecenv.make(Push, 4)
    envs.reset(seed=0)
    for wrong in (np.nan, np.inf):
        actions = np.zeros((4, 2), np.float32)
        actions[3, 1] = wrong
        with pytest.raises(InvalidAction, match="env 3"):
            envs.step(actions)
    with pytest.raises(InvalidAction):
        envs.step(np.zeros((4, 3), np.float32))
    assert envs.step(np.zeros((4, 2)))[1].dtype == np.float64


def test_calls_in_the_wrong_order_say_so():
    envs = vecenv.make(Walk, 2)
    with pytest.raises(NotResetError):
        envs.step(np.zeros(2, int))
    envs.reset(seed=0)
    envs.close()
    envs.close()
    with pytest.raises(ClosedError):
        envs.step(np.zeros(2, int))


def test_rendering_draws_copies_of_the_envs():
    envs = vecenv.make(Walk, 3, render_mode="rgb_array")
    envs.reset(seed=0)
    for _ in range(5):
        envs.step(np.array([1, 0, 1]))
    frames = envs.render()
    assert [frame.shape for frame in frames] == [(4, 32, 3)] * 3
    for frame, x in zip(frames, envs.state.x, strict=True):
        assert frame[0, int(16 + 15 * x)].tolist() == [255] * 3


def test_gymnasium_makes_them_too():
    envs = gymnasium.make_vec("vecenv/Walk-v0", num_envs=3)
    assert envs.engine.name == "compiled"
    env = gymnasium.make("vecenv/Walk-v0")
    assert equal(envs.reset(seed=5)[0][0], env.reset(seed=5)[0])


def test_auto_takes_the_kernel_and_says_so():
    envs = vecenv.make("CartPole-v1", 4)
    assert envs.engine.name == "compiled"
    assert "CartPole-v1 has a kernel" in envs.engine_reason
    envs = vecenv.make("CartPole-v1", 1, wrappers=[lambda env: env])
    assert envs.engine.name == "sync"
    assert "wrappers" in envs.engine_reason
    envs = vecenv.make("CartPole-v1", 1, render_mode="rgb_array")
    assert envs.engine.name == "compiled"
    with pytest.raises(EngineRefused, match="no kernel"):
        vecenv.make(lambda: gymnasium.make("CartPole-v1"), 2, engine="compiled")
    with pytest.raises(EngineRefused, match="precision"):
        vecenv.make("CartPole-v1", 2, engine="sync", precision="fast")


def test_an_id_that_was_registered_anew_is_not_replaced_by_our_kernel(monkeypatch):
    from gymnasium.envs.registration import EnvSpec, registry

    theirs = EnvSpec("MountainCar-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    theirs.entry_point = "their.package:Car"
    monkeypatch.setitem(registry, "MountainCar-v0", theirs)
    with pytest.raises(EngineRefused, match="no kernel"):
        vecenv.make("MountainCar-v0", 2, engine="compiled")


def test_the_ring_of_buffers_without_copies():
    envs = vecenv.make(Walk, 8, copy=False)
    envs.reset(seed=0)
    kept, values = [], []
    for _ in range(9):
        obs = envs.step(np.ones(8, int))[0]
        kept.append(obs)
        values.append(obs.copy())
        for age in range(1, min(4, len(kept)) + 1):
            assert equal(kept[-age], values[-age])
    assert kept[-1] is not kept[-2]
    assert np.shares_memory(kept[-1], kept[-5])
    envs = vecenv.make(Walk, 8)
    envs.reset(seed=0)
    first = envs.step(np.ones(8, int))[0]
    value = first.copy()
    for _ in range(6):
        envs.step(np.ones(8, int))
    assert equal(first, value)


def test_a_wrong_action_does_not_turn_the_ring():
    envs = vecenv.make(Walk, 3, copy=False)
    envs.reset(seed=0)
    current = envs.step(np.ones(3, int))[0].copy()
    with pytest.raises(InvalidAction):
        envs.step(np.array([0, 0, 5]))
    after = envs.reset(options={"reset_mask": np.array([True, False, False])})[0]
    assert equal(after[1:], current[1:])


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_native_code_reports_rewards_that_are_not_finite_beside_the_episodes_that_ended(precision):
    envs = vecenv.make(Walk, 5, precision=precision)
    envs.reset(seed=0)
    envs.state.x[1], envs.state.x[3] = np.inf, np.nan
    with pytest.warns(RuntimeWarning, match="reward"):
        _, rewards, terminated, _, _ = envs.step(np.ones(5, int))
    assert np.flatnonzero(~np.isfinite(rewards)).tolist() == [1, 3]
    assert np.flatnonzero(terminated).tolist() == [1]
    assert not envs.engine.rewards_are_finite
    envs.state.x[3] = 0.0
    assert envs.engine.exchange_all(2, 1, False) == 0
    assert envs.engine.rewards_are_finite


def test_what_is_not_a_parameter_cannot_be_set():
    envs = vecenv.make(Walk, 2)
    envs.reset(seed=0)
    with pytest.raises(UnsupportedError, match="speed, spread"):
        envs.set_attr("gravity", 3)


def test_a_mistake_that_only_the_compiler_sees_names_function_and_line(tmp_path, monkeypatch):
    (tmp_path / "mixed_types.py").write_text(
        "import numpy as np\nimport vecenv\nfrom gymnasium.spaces import Box, Discrete\n\n\n"
        "@vecenv.kernel('Mixed-v0')\nclass Mixed:\n"
        "    observation_space, action_space = Box(-1, 1, (2,)), Discrete(2)\n"
        "    state = {'x': float, 'board': (float, (3,))}\n"
        "    def reset(s, rng, p):\n        s.x = 0.0\n"
        "    def step(s, action, rng, p):\n"
        "        part = s.board if action > 5 else 1.0\n"
        "        s.x = 2.0 * part\n"
        "        return s.x, False\n"
        "    def observe(s, obs, p):\n        obs[0] = s.x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import mixed_types

    with pytest.raises(KernelError) as caught:
        vecenv.make(mixed_types.Mixed, 2)
    assert caught.value.kernel == "Mixed"
    assert caught.value.function == "step"
    assert caught.value.line in (13, 14)
    assert len(str(caught.value).splitlines()) < 12


def test_torture_in_fast_precision_stays_close():
    check_kernel(Push, tolerance=1e-12)
    check_kernel("CartPole-v1", tolerance=1e-6, steps=100)
    assert kernel_of(Torture).state["b"].dtype == np.float32
