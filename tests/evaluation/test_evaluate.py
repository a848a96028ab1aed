"""Each episode is what it is, whoever runs it, and nothing else is run."""

import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.evaluation.worlds import ENGINES, Counted, Drift, lean, play
from vecenv import scenarios
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, RestartLimit, SpaceError
from vecenv.evaluation._evaluate import _limit_of

SPEEDS = {"train": scenarios.uniform(speed=(0.05, 0.2)), "test": scenarios.grid(speed=[0.02, 0.4], spread=[0.0, 0.3])}


def run(engine, num_envs=None, **kwargs):
    if engine == "process":
        kwargs = {"context": "fork", **kwargs}
    return vecenv.evaluate(lean, Drift, engine=engine, num_envs=num_envs, resamples=50, **kwargs)


@pytest.fixture(scope="module")
def expected():
    """Every episode by a plain loop over one env in plain Python."""
    result = run("compiled", episodes=3, seeds=[4, 7], scenarios=SPEEDS)
    env = vecenv.make_env("Drift-v0")
    played = [
        play(env, lean, int(seed), values) for seed, values in zip(result.episode_seeds, result.parameters, strict=True)
    ]
    return [total for total, _ in played], [length for _, length in played]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("num_envs", [1, 5, 64])
def test_episodes_are_those_of_a_plain_loop_on_every_engine_and_number_of_envs(engine, num_envs, expected):
    workers = {} if num_envs == 1 or engine in ("sync", "asyncio") else {"workers": 2}
    result = run(engine, num_envs, episodes=3, seeds=[4, 7], scenarios=SPEEDS, **workers)
    assert result.returns.tolist() == expected[0]
    assert result.lengths.tolist() == expected[1]
    assert len(set(result.lengths.tolist())) > 3  # or this would say little


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_whoever_is_ready_first_changes_nothing(engine, expected):
    result = run(engine, 6, episodes=3, seeds=[4, 7], scenarios=SPEEDS, workers=2, batch_size=2)
    assert result.returns.tolist() == expected[0]


def test_adding_scenarios_and_seeds_leaves_the_other_episodes_alone():
    few = run("compiled", episodes=2, seeds=[1], scenarios={"slow": {"speed": 0.05}})
    many = run("compiled", episodes=4, seeds=[0, 1], scenarios={"fast": {"speed": 0.3}, "slow": {"speed": 0.05}})
    chosen = (np.array(many.groups) == "slow") & (many.seeds == 1)
    assert many.returns[chosen][:2].tolist() == few.returns.tolist()


@pytest.mark.parametrize("num_envs", [1, 3, 10, 50])
def test_every_seed_gets_exactly_its_episodes_and_finished_envs_are_not_stepped(num_envs):
    Counted.steps = Counted.resets = 0
    result = vecenv.evaluate(lean, Counted, episodes=7, seeds=3, num_envs=num_envs, engine="sync")
    assert [(row.seed, row.episodes) for row in result.table] == [(0, 7), (1, 7), (2, 7), (None, 21)]
    assert Counted.resets == 21
    assert Counted.steps == result.lengths.sum()


def test_short_episodes_weigh_no_more_than_long_ones():
    result = vecenv.evaluate(lean, Counted, episodes=400, num_envs=16, engine="sync", resamples=10)
    assert abs(result.lengths.mean() - 6.0) < 0.5  # uniform over 1 ... 11


def test_the_policy_sees_nothing_but_running_episodes():
    seen = []

    def watch(obs):
        seen.append(len(obs))
        assert (obs[:, 0] > 0).all()  # no steps left: over
        return np.zeros(len(obs), np.int64)

    result = vecenv.evaluate(watch, Counted, episodes=9, num_envs=4, engine="sync")
    assert sum(seen) == result.lengths.sum()


@pytest.mark.parametrize("engine", ["sync", "thread", "asyncio", "process"])
def test_constructor_arguments_and_reset_options_reach_python_envs(engine):
    context = {"context": "fork"} if engine == "process" else {}
    cases = scenarios.grid(gain=[1.0, 3.0], start=[0.0, 0.5])
    result = vecenv.evaluate(
        lean,
        Counted,
        episodes=3,
        num_envs=5,
        engine=engine,
        scenarios=cases,
        workers=2 if engine in ("thread", "process") else None,
        **context,
    )
    for total, seed, values in zip(result.returns, result.episode_seeds, result.parameters, strict=True):
        assert total == play(Counted(values["gain"]), lean, int(seed), {"start": values["start"]})[0]


def test_gymnasiums_own_env_and_its_kernel_agree_about_a_constructor_argument():
    def push(obs):
        return (-obs[:, 2:]).astype(np.float32)

    cases = {"g": scenarios.uniform(g=(1.0, 20.0)), "start": scenarios.list([{}, {"x_init": 0.1, "y_init": 0.2}])}
    options = {"episodes": 2, "scenarios": cases, "max_episode_steps": 20, "resamples": 10}
    native = vecenv.evaluate(push, "Pendulum-v1", **options)
    python = vecenv.evaluate(push, "Pendulum-v1", engine="sync", num_envs=3, **options)
    assert native.returns.tolist() == python.returns.tolist()
    assert len(set(native.returns.tolist())) == 6


class Mixed(gymnasium.Env):
    """Observations with a part that has no fixed size, actions in two parts."""

    observation_space = spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Tuple((spaces.Text(5), spaces.Discrete(9))))
    action_space = spaces.Tuple((spaces.Discrete(9), spaces.Box(-1, 1, (2,))))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(1, 9))
        return self._seen(), {}

    def step(self, action):
        self.left -= 1
        return self._seen(), float(action[0]) + float(action[1].sum()), self.left == 0, False, {}

    def _seen(self):
        return {"a": self.np_random.uniform(-1, 1, 2).astype(np.float32), "b": ("x" * self.left, self.left)}


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_observations_and_actions_of_many_parts(engine):
    def echo(obs):
        texts, numbers = obs["b"]
        assert [len(text) for text in texts] == numbers.tolist()
        return numbers, obs["a"]

    one = vecenv.evaluate(echo, Mixed, episodes=6, num_envs=1, engine="sync")
    context = {"context": "fork"} if engine == "process" else {}
    many = vecenv.evaluate(echo, Mixed, episodes=6, num_envs=4, engine=engine, **context)
    assert many.returns.tolist() == one.returns.tolist()


class CountsSteps(gymnasium.Env):
    """Observes how many steps its episode has; an episode has one to five."""

    observation_space, action_space = gymnasium.spaces.Box(0, 5, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps, self._length = 0, self.np_random.integers(1, 6)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._steps += 1
        return np.array([self._steps], np.float32), 1.0, self._steps == self._length, False, {}


def test_a_recurrent_policy_is_told_of_each_env_whether_its_episode_has_just_begun():
    def checking(obs, state, episode_start):
        assert (obs[:, 0] == 0).tolist() == np.asarray(episode_start).tolist()
        return np.zeros(len(obs), np.int64), np.zeros(len(obs))

    result = vecenv.evaluate(checking, CountsSteps, episodes=40, num_envs=4, engine="sync", resamples=50)
    assert len(result) == 40


def test_a_recurrent_policy_keeps_one_memory_per_env():
    def counting(obs, state, episode_start):
        """Acts on the number of steps since its env's episode began."""
        before = np.zeros(len(obs), np.int64) if state is None else state["steps"]
        steps = np.where(episode_start, 0, before) + 1
        return steps % 2, {"steps": steps}

    one = vecenv.evaluate(counting, Drift, episodes=6, num_envs=1)
    many = vecenv.evaluate(counting, Drift, episodes=6, num_envs=4, engine="sync")
    assert one.returns.tolist() == many.returns.tolist()


class Predictor:
    """Memories as Stable-Baselines3's recurrent policies have them: [layers, envs, ...]."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        before = np.zeros((1, len(observation), 1)) if state is None else state[0]
        assert before.shape == (1, len(observation), 1)
        steps = np.where(episode_start[None, :, None], 0, before) + 1
        return (steps[0, :, 0] % 2).astype(np.int64), (steps,)


def test_memories_with_layers_first_are_told_apart():
    one = vecenv.evaluate(Predictor(), Drift, episodes=6, num_envs=1)
    many = vecenv.evaluate(Predictor().predict, Drift, episodes=6, num_envs=4)
    assert one.returns.tolist() == many.returns.tolist()


def test_action_masks_reach_a_policy_that_wants_them():
    masks = []

    def masked(obs, action_masks):
        masks.append(action_masks)
        return action_masks.argmax(axis=1)

    vecenv.evaluate(masked, "Taxi-v3", episodes=3, num_envs=2, max_episode_steps=5)
    assert all(mask.shape[1] == 6 and mask.any(axis=1).all() for mask in masks)


def test_torch_modules_act_by_their_scores_and_stay_in_training_mode():
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    first = vecenv.evaluate(net, Drift, episodes=5, num_envs=1)
    assert net.training

    def by_hand(obs):
        with torch.no_grad():
            return net.eval()(torch.as_tensor(obs, dtype=torch.float32)).argmax(1).numpy()

    assert vecenv.evaluate(by_hand, Drift, episodes=5, num_envs=1).returns.tolist() == first.returns.tolist()


def test_stable_baselines_models_are_evaluated_as_its_own_function_does():
    import stable_baselines3

    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    result = vecenv.evaluate(model, "CartPole-v1", episodes=5)
    env = vecenv.make_env("CartPole-v1")

    def policy(obs):
        return model.predict(obs, deterministic=True)[0]

    assert result.returns.tolist() == [play(env, policy, int(seed), {})[0] for seed in result.episode_seeds]
    running = vecenv.evaluate(model, "CartPole-v1", episodes=5, background=True)
    assert running.result(30).returns.tolist() == result.returns.tolist()


def test_wrappers_see_the_envs_and_returns_stay_the_envs_own():
    plain = run("compiled", episodes=4)
    wrapped = run(
        "compiled", episodes=4, wrap=lambda envs: vecenv.wrappers.TransformReward(envs, lambda reward: 0 * reward)
    )
    assert wrapped.returns.tolist() == plain.returns.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_in_the_background_it_is_the_same_with_the_policy_of_the_moment(engine):
    weights = np.array([0.9])
    go = threading.Event()

    class Policy:
        def __init__(self):
            self.weights = weights

        def __call__(self, obs):
            return (obs[:, 0] < self.weights[0]).astype(np.int64)

    context = {"context": "fork", "workers": 2} if engine == "process" else {}
    here = run(engine, 3, episodes=4, **context)
    running = vecenv.evaluate(
        Policy(),
        Drift,
        episodes=4,
        engine=engine,
        num_envs=3,
        background=True,
        progress=lambda *_: go.wait(20),
        **context,
    )
    weights[0] = -10.0
    assert not running.done()
    go.set()
    assert running.result(30).returns.tolist() == here.returns.tolist()
    assert running.done()
    assert running.progress == (4, 4)


def test_a_function_is_copied_with_what_it_holds():
    weights = np.array([0.9])
    running = vecenv.evaluate(lambda obs: (obs[:, 0] < weights[0]) * 1, Drift, episodes=40, num_envs=1, background=True)
    weights[0] = -10.0
    assert running.result(30).returns.tolist() == run("compiled", episodes=40).returns.tolist()


def test_cancelling_ends_it_and_closes_the_envs():
    started = threading.Event()
    running = vecenv.evaluate(
        lean, Drift, episodes=20_000, num_envs=1, background=True, progress=lambda *_: started.set()
    )
    assert started.wait(30)
    assert running.cancel()
    with pytest.raises(CancelledError):
        running.result(30)
    assert running.cancelled()
    running.join(30)
    assert not running.cancel()


def test_what_goes_wrong_in_the_background_is_raised_by_result():
    running = vecenv.evaluate(lambda obs: obs[:1, 0], Drift, num_envs=3, background=True)
    with pytest.raises(InvalidAction, match="for 3 observations"):
        running.result(30)


def test_an_episode_that_an_env_lost_is_played_again():
    class Fragile(Counted):
        def __init__(self):
            super().__init__()
            self.broken = False

        def step(self, action):
            if self.left == 3 and Fragile.failures:
                Fragile.failures -= 1
                raise RuntimeError("again")
            return super().step(action)

    Fragile.failures = 2
    fragile = vecenv.evaluate(lean, Fragile, episodes=8, num_envs=4, engine="sync", on_error="restart")
    sound = vecenv.evaluate(lean, Counted, episodes=8, num_envs=4, engine="sync")
    assert Fragile.failures == 0
    assert fragile.returns.tolist() == sound.returns.tolist()


def test_an_episode_that_fails_every_time_ends_the_evaluation():
    class Fails(Counted):
        def reset(self, *, seed=None, options=None):
            result = super().reset(seed=seed, options=options)
            self.fails = self.left > 6  # which its seed decides
            return result

        def step(self, action):
            if self.fails and self.left == 2:
                raise TimeoutError("the server is slow")
            return super().step(action)

    with pytest.raises(RestartLimit, match=r"failed 10 times, last by TimeoutError: the server is slow"):
        vecenv.evaluate(lean, Fails, episodes=16, num_envs=4, engine="asyncio", on_error="restart")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"episodes": 0}, ConfigError, "episodes must be an int >= 1"),
        ({"seeds": []}, ConfigError, "seeds is empty"),
        ({"seeds": [1, 1]}, ConfigError, "twice"),
        ({"seeds": [-1]}, ConfigTypeError, "ints >= 0"),
        ({"seeds": "all"}, ConfigTypeError, "seeds must be"),
        ({"scenarios": {"speed": 0.3}}, ConfigTypeError, r"scenarios=\[\{...\}\]"),
        ({"scenarios": 3}, ConfigTypeError, "must be a parameter set"),
        ({"scenarios": {}}, ConfigError, "leave it out"),
        ({"scenarios": [{"sped": 0.3}]}, ConfigTypeError, "did you mean 'speed'"),
        ({"scenarios": [{"mass": 0.3}]}, ConfigTypeError, "another env"),
        ({"scenarios": [{"speed": "fast"}]}, ConfigTypeError, "must be float64"),
        ({"scenarios": [{"speed": [0.3, 0.4]}]}, ConfigError, "speed"),
        ({"confidence": 95}, ConfigError, "confidence"),
        ({"autoreset": "same-step"}, ConfigError, "leave autoreset out"),
        ({"num_envs": 0}, ConfigError, "num_envs"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, says):
    with pytest.raises(error, match=says):
        vecenv.evaluate(lean, Drift, **arguments)


def test_python_envs_know_their_constructor_arguments():
    with pytest.raises(ConfigError, match="did you mean 'gain'"):
        vecenv.evaluate(lean, Counted, scenarios=[{"gains": 2.0}])
    with pytest.raises(ConfigTypeError, match="Pendulum-v1 has no parameter 'gg'"):
        vecenv.evaluate(lean, "Pendulum-v1", engine="sync", scenarios=[{"gg": 2.0}])
    with pytest.raises(ConfigError, match="which no scenario has"):
        vecenv.evaluate(lean, Counted, scenarios=[{"start": 2.0}], scenario_kwargs=["gain"])


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (lambda obs: np.zeros(len(obs) + 1, np.int64), r"shape \(4,\) for 3 observations"),
        (lambda obs: np.zeros((len(obs), 2)), r"shape \(3, 2\) for 3"),
        (lambda obs: np.full(len(obs), 7), "3 observations"),
        (lambda obs: None, "NoneType"),
        (lambda obs, state, episode_start: np.zeros(len(obs), np.int64), r"returns \(actions, states\)"),
    ],
)
def test_actions_that_do_not_fit_are_the_policys(policy, says):
    with pytest.raises(InvalidAction, match=says):
        vecenv.evaluate(policy, Drift, num_envs=3)


def test_policies_that_were_trained_for_other_actions_are_refused():
    class Model:
        def __init__(self, action_space):
            self.action_space = action_space

        def predict(self, obs, state=None, episode_start=None):
            return np.zeros(len(obs), np.int64), state

    assert len(vecenv.evaluate(Model(spaces.Discrete(2)), "CartPole-v1")) == 10
    for others in (spaces.Discrete(3), spaces.Discrete(2, start=1), spaces.MultiDiscrete([2]), spaces.Box(-1, 1, ())):
        with pytest.raises(SpaceError, match=r"was trained for the actions .*, those of these envs are Discrete\(2\)"):
            vecenv.evaluate(Model(others), "CartPole-v1")


def test_what_is_no_policy_or_no_env_is_refused_before_anything_runs():
    with pytest.raises(ConfigTypeError, match="policy must be"):
        vecenv.evaluate(3, Drift)
    with pytest.raises(ConfigTypeError, match="makes its own envs"), vecenv.make(Drift, 2) as envs:
        vecenv.evaluate(lean, envs)
    with pytest.raises(ConfigTypeError, match="one env"):
        vecenv.evaluate(lean, [Counted, Counted])
    lock = threading.Lock()
    with pytest.raises(ConfigTypeError, match="cannot be copied"):
        vecenv.evaluate(lambda obs: lock, Drift, background=True)


def test_episodes_of_an_env_without_a_time_limit_end_and_the_result_says_so(monkeypatch):
    monkeypatch.setattr("vecenv.evaluation._evaluate.LONGEST", 30)

    def up(obs):
        return np.zeros(len(obs), np.int64)

    result = vecenv.evaluate(up, "CliffWalking-v1", episodes=3, resamples=50)
    assert (result.cut, result.lengths.tolist(), result.terminated.any()) == (3, [30, 30, 30], False)
    assert "3 of them did not end and were cut after 30 steps" in str(result)
    assert '"cut": 3' in result.to_json()


def test_a_time_limit_of_the_caller_is_the_one_that_holds_and_that_of_an_env_is_not_called_a_cut(monkeypatch):
    monkeypatch.setattr("vecenv.evaluation._evaluate.LONGEST", 30)

    def up(obs):
        return np.zeros(len(obs), np.int64)

    own = vecenv.evaluate(up, "CliffWalking-v1", episodes=2, resamples=50, max_episode_steps=40)
    assert (own.cut, own.lengths.tolist()) == (2, [40, 40])
    assert "2 of them did not end and were cut after 40 steps" in str(own)
    for each in ({"max_episode_steps": 7}, [{"max_episode_steps": 7}] * 2):
        own = vecenv.evaluate(up, "CliffWalking-v1", episodes=2, num_envs=2, resamples=50, env_kwargs=each)
        assert (own.cut, own.lengths.tolist()) == (2, [7, 7])
    result = vecenv.evaluate(up, "Taxi-v3", episodes=1, resamples=50)
    assert (result.cut, result.lengths.tolist()) == (0, [200])
    assert "cut" not in str(result)


class FailsToReset(Counted):
    """The first two resets with a seed fail, of all envs together."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def reset(self, *, seed=None, options=None):
        for name in "ab" if seed is not None else "":
            with suppress(FileExistsError):
                (self.folder / name).touch(exist_ok=False)
                raise RuntimeError("no connection")
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize("engine", ["sync", "thread", "process", "asyncio"])
@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_an_episode_whose_reset_failed_has_its_seed(engine, num_envs, tmp_path):
    given = {"episodes": 6, "scenarios": scenarios.grid(start=[0.0, 2.0]), "resamples": 50}
    expected = vecenv.evaluate(lean, Counted, **given)
    env = partial(FailsToReset, tmp_path)
    result = vecenv.evaluate(lean, env, **given, num_envs=num_envs, engine=engine, on_error="restart")
    assert {file.name for file in tmp_path.iterdir()} == {"a", "b"}
    assert result.returns.tolist() == expected.returns.tolist()


@pytest.mark.parametrize("engine", ["sync", "thread", "process"])
@pytest.mark.parametrize("num_envs", [1, 3, 20])
@pytest.mark.parametrize("env", [Counted, lambda: Counted()], ids=["class", "function"])
def test_a_limit_cuts_the_episodes_of_any_env_where_a_plain_loop_would(env, num_envs, engine):
    kinds = {"usual": {}, "ahead": {"start": 2.0}}
    options = {"workers": 2, "batch_size": 1} if engine != "sync" and num_envs > 1 else {}
    result = vecenv.evaluate(
        lean, env, episodes=10, seeds=[3, 8], scenarios=kinds, num_envs=num_envs, engine=engine, resamples=50,
        max_episode_steps=4, **options,
    )  # fmt: skip
    episodes = list(zip(result.episode_seeds.tolist(), result.parameters, strict=True))
    expected = [play(Counted(), lean, seed, values, limit=4) for seed, values in episodes]
    whole = [play(Counted(), lean, seed, values)[1] for seed, values in episodes]
    assert list(zip(result.returns.tolist(), result.lengths.tolist(), strict=True)) == expected
    assert result.terminated.tolist() == [length <= 4 for length in whole]
    assert 5 < result.cut == sum(length > 4 for length in whole) < len(whole) - 5


class Endless(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), 1.0, False, False, {}


def test_episodes_of_a_class_a_function_and_agents_are_cut_too_if_nobody_sets_a_limit(monkeypatch):
    monkeypatch.setattr("vecenv.evaluation._evaluate.LONGEST", 30)
    for env in (Endless, lambda: Endless(), lambda: gymnasium.wrappers.TimeLimit(Endless(), 50)):
        result = vecenv.evaluate(lambda obs: np.zeros(len(obs), np.int64), env, episodes=20, resamples=50)
        assert (result.cut, set(result.lengths.tolist()), set(result.returns.tolist())) == (20, {30}, {30.0})
    result = vecenv.evaluate(lambda obs: np.zeros(len(obs), np.int64), "Pursuit-v0", episodes=3, resamples=50)
    assert (result.cut, max(result.lengths)) == (0, 300)  # has a limit of its own
    monkeypatch.setattr("vecenv.evaluation._evaluate.LONGEST", 5)
    result = vecenv.evaluate(random_legal, "ConnectFourDuel-v0", episodes=3, num_envs=2, resamples=50)
    assert (result.cut, result.lengths.tolist()) == (3, [5, 5, 5])


def random_legal(obs, mask):
    return mask.argmax(axis=-1)


class Timed(Endless):
    """Has a time limit of its own, which is an argument."""

    def __init__(self, max_episode_steps=10):
        self.limit = max_episode_steps

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.time += 1
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.time == self.limit, info


@pytest.mark.parametrize(
    "env", [Timed, lambda max_episode_steps=10: Timed(max_episode_steps), partial(gymnasium.make, "MountainCar-v0"),
            "MountainCar-v0", gymnasium.spec("MountainCar-v0")]
)  # fmt: skip
def test_a_limit_may_be_longer_than_the_envs_where_make_can_pass_it_on(env):
    for limit in (250, np.int64(250), 5):
        result = vecenv.evaluate(
            lambda obs: np.zeros(len(obs), np.int64), env, episodes=2, resamples=50, max_episode_steps=limit
        )
        assert (result.lengths.tolist(), result.cut) == ([limit, limit], 2)


def test_a_limit_may_be_longer_than_a_mujoco_tasks():
    pytest.importorskip("mujoco")
    from vecenv.mujoco.tasks.half_cheetah import HalfCheetah

    for env in (HalfCheetah, "HalfCheetah-v5"):
        result = vecenv.evaluate(
            lambda obs: np.zeros((len(obs), 6), np.float32), env, episodes=1, resamples=50, max_episode_steps=1003
        )
        assert result.lengths.tolist() == [1003]


def test_no_limit_at_all_can_be_asked_for_and_a_limit_is_a_number():
    env = lambda: gymnasium.wrappers.TimeLimit(Endless(), 27_010)  # noqa: E731
    for none in (None, -1):
        result = vecenv.evaluate(
            lambda obs: np.zeros(len(obs), np.int64), env, episodes=1, resamples=50, max_episode_steps=none
        )
        assert (result.cut, result.lengths.tolist()) == (0, [27_010])
    for wrong in (0, 2.5, "many"):
        with pytest.raises((ConfigError, ConfigTypeError), match="max_episode_steps must be"):
            vecenv.evaluate(lean, Endless, max_episode_steps=wrong)


def test_games_have_a_time_limit_of_their_own():
    pytest.importorskip("ale_py")
    for id in ("ALE/Pong-v5", "Pong-v4", "PongNoFrameskip-v4"):
        assert _limit_of(gymnasium.spec(id)) is None, id
    assert _limit_of(gymnasium.spec("CartPole-v1")) is None
    assert _limit_of(gymnasium.spec("CliffWalking-v1")) == _limit_of(None) == 27_000
