"""Parameters that all envs share: one copy in memory, the same bits as with a copy per env."""

import pickle
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.kernels.defining import refused, written
from tests.kernels.test_native import equal
from vecenv import scenarios
from vecenv.errors import ConfigError, EnvError, SpaceError
from vecenv.kernel import kernel_of
from vecenv.kernel.language.python import KernelEnv
from vecenv.testing._check_kernel import drawn_parameters

DAYS = 50
PRICES = np.random.default_rng(0).random((DAYS, 3))
OTHERS = PRICES[::-1].copy()
SHARED = "'prices' is shared by all envs"


class Trading:
    """Hold one of three things for a day; begin on a random day."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(3)
    state = {"day": int}
    shapes = {"prices": (None, 3)}

    def reset(s, rng, p):
        s.day = rng.integers(0, p.prices.shape[0] - 10)

    def step(s, action, rng, p):
        before = p.prices[s.day, action]
        s.day += 1
        return p.prices[s.day, action] - before - p.fee, s.day >= p.prices.shape[0] - 1

    def observe(s, obs, p):
        obs[0] = p.prices[s.day, 0]
        obs[1] = p.prices[s.day, 2]


@vecenv.kernel("SharedTrading-v0", max_episode_steps=9)
class SharedTrading(Trading):
    class Params(vecenv.kernel.Params, shared=True):
        prices = PRICES
        fee = 0.01


@vecenv.kernel("OwnTrading-v0", max_episode_steps=9)
class OwnTrading(Trading):
    class Params:
        prices = PRICES
        fee = 0.01


def make(count=4, engine="compiled", definition=SharedTrading, **kwargs):
    return vecenv.make(definition, count, engine=engine, **kwargs)


def play(envs, steps=25, seed=0):
    rng = np.random.default_rng(seed)
    return [envs.step(rng.integers(0, 3, envs.num_envs)) for _ in range(steps)]


# --- one copy --------------------------------------------------------------------------------------------------------


def test_all_envs_have_one_copy():
    prices = np.random.default_rng(1).random((10_000, 3))
    with make(4096, prices=prices) as envs:
        column = envs.engine.parameters["prices"]
        assert column.shape == (1, 10_000, 3)
        assert column.nbytes == prices.nbytes
        assert not column.flags.writeable
        assert envs.engine._columns["P_prices"] is column
        assert "B_prices" not in envs.engine._columns
        assert envs.engine.memory < prices.nbytes + 4096 * 1000
        assert envs.engine.parameters["fee"].shape == (4096,)
        values = envs.get_attr("prices")
        assert all(value is values[0] for value in values)
        assert values[0].shape == (10_000, 3)
        snapshot = envs.get_state([0, 5])
        assert snapshot.columns["P_prices"] is column
        starts = envs.engine.states_of(np.arange(4096))["P_prices"]
        assert (starts.shape, starts.strides[0]) == ((4096, 10_000, 3), 0)


def test_python_envs_of_a_process_have_one_copy():
    with make(5, "sync", prices=PRICES * 2) as envs:
        held = envs.call("get_wrapper_attr", "prices")
        assert all(np.shares_memory(value, held[0]) for value in held)
        assert not held[0].flags.writeable
        seen = envs.get_attr("params")
        assert all(np.shares_memory(params.prices, held[0]) for params in seen)


def test_what_the_caller_passed_can_be_changed_afterwards():
    prices = PRICES.copy()
    with make(2, prices=prices) as envs, make(2, "sync", prices=prices) as python:
        prices[:] = 0.0
        assert equal(envs.reset(seed=0)[0], python.reset(seed=0)[0])
        assert envs.get_attr("prices")[0].tolist() == PRICES.tolist()


# --- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_shared_parameters_give_the_bits_of_a_copy_per_env(autoreset):
    shared, own, python = (
        make(6, engine, definition, autoreset=autoreset, prices=OTHERS, fee=np.linspace(0, 1, 6))
        for engine, definition in (("compiled", SharedTrading), ("compiled", OwnTrading), ("sync", SharedTrading))
    )
    first = shared.reset(seed=3)
    assert equal(first, own.reset(seed=3))
    assert equal(first, python.reset(seed=3))
    results = play(shared)
    assert equal(results, play(own))
    assert equal(results, play(python))
    actions = np.random.default_rng(1).integers(0, 3, (20, 6))
    assert equal(shared.rollout(actions).obs, own.rollout(actions).obs)
    for envs in (shared, own, python):
        envs.close()


def test_check_kernel_takes_shared_parameters():
    vecenv.testing.check_kernel(SharedTrading, num_envs=3, prices=OTHERS)


def test_check_kernel_draws_one_value_for_all_envs():
    members = {"Params": SharedTrading.Params, "bounds": {"prices": (0.0, 1.0), "fee": (0.0, 1.0)}}
    kernel = kernel_of(vecenv.kernel("BoundedTrading-v0")(type("Bounded", (Trading,), members)))
    drawn = drawn_parameters(kernel, {}, 4, np.random.default_rng(0))
    assert {name: values.shape for name, values in drawn.items()} == {"prices": (DAYS, 3), "fee": (4,)}
    assert kernel.parameters(drawn, 4)["prices"].shape == (1, DAYS, 3)


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_every_engine_has_them(engine):
    with make(4, engine, prices=OTHERS, workers=2) as envs, make(4, prices=OTHERS) as native:
        assert equal(envs.reset(seed=0), native.reset(seed=0))
        assert equal(play(envs, 5), play(native, 5))
        for both in (envs, native):
            both.set_attr("prices", PRICES)
        assert equal(play(envs, 15), play(native, 15))
        assert [value.tolist() for value in envs.get_attr("prices")] == [PRICES.tolist()] * 4
        for both in (envs, native):
            with pytest.raises(ConfigError, match=SHARED):
                both.set_attr("prices", [PRICES, PRICES, OTHERS, OTHERS])


def test_faces_have_them():
    envs = gymnasium.make_vec("vecenv/SharedTrading-v0", num_envs=3, prices=OTHERS)
    single = gymnasium.make("vecenv/SharedTrading-v0", prices=OTHERS)
    assert equal(envs.reset(seed=5)[0][0], single.reset(seed=5)[0])
    envs.close()
    baselines = vecenv.sb3.wrap(make(3, autoreset="same-step", prices=OTHERS))
    assert baselines.get_attr("prices")[2].tolist() == OTHERS.tolist()
    baselines.set_attr("prices", PRICES)
    assert baselines.get_attr("prices", 1)[0].tolist() == PRICES.tolist()
    with pytest.raises(ConfigError, match=SHARED):
        baselines.set_attr("prices", OTHERS, indices=[1])
    baselines.close()


# --- setting ---------------------------------------------------------------------------------------------------------


def test_set_attr_is_for_all_envs_at_once():
    with make(3) as envs, make(3, "sync") as python:
        for both in (envs, python):
            both.reset(seed=0)
            both.set_attr("prices", OTHERS)
            both.set_attr("fee", 0.5)
        days = envs.state.day.copy()
        obs, reward, *_ = envs.step(np.zeros(3, int))
        assert obs[:, 0].tolist() == OTHERS[days + 1, 0].tolist()
        assert reward.tolist() == (OTHERS[days + 1, 0] - OTHERS[days, 0] - 0.01).tolist()  # fee: from the next episode
        assert equal(python.step(np.zeros(3, int))[:2], (obs, reward))
        assert equal(play(envs, 20), play(python, 20))
        envs.set_attr("prices", envs.get_attr("prices"))
        envs.set_attr("prices", [PRICES.copy() for _ in range(3)])  # equal values are one value


@pytest.mark.parametrize("engine", ["compiled", "sync"])
def test_values_per_env_are_refused(engine):
    each = np.stack([PRICES, OTHERS, PRICES])
    for kwargs in ({"prices": each}, {"env_kwargs": [{"prices": PRICES}, {"prices": OTHERS}, {}]}):
        with pytest.raises(ConfigError, match=f"{SHARED}, so they cannot have different values; give one"):
            make(3, engine, **kwargs)
    with make(3, engine, env_kwargs=[{"prices": PRICES}, {}, {"prices": PRICES.copy()}]) as envs:
        with pytest.raises(ConfigError, match=SHARED):
            envs.set_attr("prices", [PRICES, OTHERS, PRICES])
        for options in ({"prices": OTHERS}, [{"prices": OTHERS}, None, None]):
            with pytest.raises((ConfigError, EnvError), match=rf"{SHARED}.*use set_attr\('prices', value\)"):
                envs.reset(options=options)
        envs.reset()
        assert all(value.tolist() == PRICES.tolist() for value in envs.get_attr("prices"))


@pytest.mark.parametrize("engine", ["compiled", "sync"])
def test_values_that_do_not_fit_are_refused(engine):
    with pytest.raises((ConfigError, EnvError), match=r"'prices' must have shape \(any, 3\), got \(50, 2\)"):
        make(2, engine, prices=PRICES[:, :2])
    with make(2, engine) as envs:
        envs.reset(seed=0)
        for wrong in (PRICES[:, :2], PRICES[0], "high", PRICES[:20]):
            with pytest.raises((ConfigError, TypeError, EnvError), match="'prices'"):
                envs.set_attr("prices", wrong)
        assert envs.get_attr("prices")[1].tolist() == PRICES.tolist()


def test_scenarios_cannot_vary_them():
    with make(2) as envs, pytest.raises(ConfigError, match=SHARED):
        scenarios.VaryScenarios(envs, scenarios.list([{"prices": PRICES}, {"prices": OTHERS}]))


# --- states ----------------------------------------------------------------------------------------------------------


def test_states_and_clones_share_them():
    with make(3) as envs:
        envs.reset(seed=0)
        before = envs.get_state()
        future = play(envs, 12)
        envs.set_state(pickle.loads(pickle.dumps(before)))
        assert equal(play(envs, 12), future)
        assert envs.engine.parameters["prices"] is before.columns["P_prices"]
        envs.clone(0, [1, 2])
        assert envs.state.day.tolist() == [envs.state.day[0]] * 3


def test_a_state_with_other_values_is_set_to_all_envs_or_to_none():
    with make(3) as envs:
        envs.reset(seed=0)
        before = envs.get_state()
        future = play(envs, 12)
        envs.set_attr("prices", OTHERS)
        with pytest.raises(SpaceError, match="other prices, which all envs share; set it for all envs at once"):
            envs.set_state(envs_state(before, 1), [1])
        assert envs.get_attr("prices")[0].tolist() == OTHERS.tolist()
        envs.set_state(before)
        assert envs.get_attr("prices")[0].tolist() == PRICES.tolist()
        assert equal(play(envs, 12), future)


def envs_state(snapshot, row):
    columns = {
        name: column if name == "P_prices" else column[row : row + 1] for name, column in snapshot.columns.items()
    }
    return type(snapshot)(columns, snapshot.ready[row : row + 1])


def test_copies_of_the_vector_env_go_on_alike():
    with make(3, prices=OTHERS) as envs:
        envs.reset(seed=0)
        twin = pickle.loads(pickle.dumps(envs))
        assert equal(play(envs), play(twin))
        assert twin.engine.parameters["prices"] is envs.engine.parameters["prices"]
        with pytest.raises(ConfigError, match=SHARED):
            twin.set_attr("prices", [PRICES, OTHERS, PRICES])


def test_recordings_of_them_are_replayed(tmp_path):
    with make(2, prices=OTHERS, record="last-episode", record_folder=tmp_path) as envs:
        envs.reset(seed=0)
        play(envs, 4)
        assert vecenv.replay(envs.recording(1)).outcome == "clean"


# --- definitions -----------------------------------------------------------------------------------------------------


def params_of(shared):
    return f"class Params(vecenv.kernel.Params, shared={shared}):\n    speed = 0.1\n    moves = np.zeros(2)"


@pytest.mark.parametrize(
    ("shared", "rule"),
    [
        ("('move',)", "Params: shared: there is no 'move'; did you mean 'moves'"),
        ("('speed',)", "Params: 'speed' is a number, and only arrays are shared"),
        ("'moves'", "Params: shared must be True or a tuple of names, got 'moves'"),
        ("3", "Params: shared must be True or a tuple of names, got 3"),
    ],
)
def test_what_cannot_be_shared_is_refused(shared, rule, tmp_path):
    assert re.search(rule, str(refused(written(tmp_path, params_of(shared)))))


def test_some_arrays_may_be_shared_and_others_not():
    class Params(vecenv.kernel.Params, shared=("prices",)):
        prices = PRICES
        weights = np.ones(3)
        fee = 0.0

    both = vecenv.kernel("SomeShared-v0")(type("Some", (Trading,), {"Params": Params, "shapes": {}}))
    kernel = kernel_of(both)
    assert kernel.shared_params == {"prices"}
    columns = kernel.parameters({"weights": np.ones((4, 3))}, 4)
    assert {name: column.shape[0] for name, column in columns.items()} == {"prices": 1, "weights": 4, "fee": 4}
    child = type("Child", (Params,), {})
    assert child.__shared__ == ("prices",)


def test_params_are_read_only_in_python():
    env = KernelEnv(kernel_of(SharedTrading))
    with pytest.raises(TypeError, match="read-only"):
        env.params.prices[0, 0] = 1.0
