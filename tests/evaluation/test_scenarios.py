"""Draws depend on what they are for alone, and every kind of autoreset begins with them."""

import os

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.evaluation.worlds import ENGINES, Counted, Drift
from vecenv import scenarios
from vecenv.errors import ConfigError, ConfigTypeError, SpaceError, UnsupportedError
from vecenv.scenarios._noise import Noise

MODES = ("next-step", "same-step", "disabled")


def noise(count=2000):
    return Noise(np.arange(count), np.zeros(count, np.int64))


def make(engine, env, count, **kwargs):
    if engine in ("thread", "process"):
        kwargs.setdefault("workers", 2)
    if engine == "process":
        kwargs.setdefault("context", "fork")
    return vecenv.make(env, count, engine=engine, **kwargs)


def begin_all(envs, steps, actions=None):
    """Step envs; what each env's first observation of every episode showed, env by env."""
    shown = [[] for _ in range(envs.num_envs)]
    obs, _ = envs.reset(seed=11)
    for row in range(envs.num_envs):
        shown[row].append(obs[row, 1:].tolist())
    ended = np.zeros(envs.num_envs, np.bool_)
    for _ in range(steps):
        if envs.autoreset_mode is gymnasium.vector.AutoresetMode.DISABLED and ended.any():
            obs, _ = envs.reset(options={"reset_mask": ended})
            began, ended = ended, np.zeros_like(ended)
        else:
            obs, _, terminated, truncated, _ = envs.step(np.ones(envs.num_envs, np.int64))
            over = terminated | truncated
            same = envs.autoreset_mode is gymnasium.vector.AutoresetMode.SAME_STEP
            began, ended = (over, ended) if same else (ended, over)
        for row in np.flatnonzero(began):
            shown[row].append(obs[row, 1:].tolist())
    return shown


@pytest.fixture(scope="module")
def expected():
    """The draws of the first eight episodes of five envs, by the rule alone."""
    speeds = scenarios.uniform(speed=(0.05, 0.5))
    return [
        [speeds.draw(Noise(np.array([11 + row]), np.array([episode])))["speed"][0] for episode in range(8)]
        for row in range(5)
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", MODES)
def test_every_episode_of_a_kernel_begins_with_its_draw(engine, mode, expected):
    envs = scenarios.VaryScenarios(make(engine, Drift, 5, autoreset=mode), scenarios.uniform(speed=(0.05, 0.5)))
    shown = begin_all(envs, 90)
    now = [values["speed"] for values in envs.current]
    envs.close()
    assert min(map(len, shown)) >= 3
    for row, (seen, drawn) in enumerate(zip(shown, expected, strict=True)):
        assert [speed for (speed,) in seen][:8] == drawn[: len(seen)]
        assert now[row] == seen[-1][0]


@pytest.mark.parametrize("engine", ["sync", "thread", "asyncio", "process"])
@pytest.mark.parametrize("mode", MODES)
def test_python_envs_get_reset_options_and_constructor_arguments(engine, mode):
    envs = make(engine, Counted, 4, autoreset=mode)
    varied = scenarios.VaryScenarios(envs, scenarios.uniform(gain=(1.0, 2.0), start=(0.0, 1.0)), kwargs=["gain"])
    shown = begin_all(varied, 40)
    varied.close()
    rule = scenarios.uniform(gain=(1.0, 2.0), start=(0.0, 1.0))
    for row, seen in enumerate(shown):
        drawn = rule.draw(Noise(np.full(len(seen), 11 + row), np.arange(len(seen))))
        assert seen == np.stack([drawn["gain"], drawn["start"]], axis=1).tolist()
        assert len(seen) >= 3


def test_a_reset_with_the_same_seed_draws_the_same_scenarios_again():
    with make("sync", Counted, 3, autoreset="same-step") as envs:
        varied = scenarios.VaryScenarios(envs, scenarios.uniform(start=(1.0, 2.0)), kwargs=[])
        assert begin_all(varied, 20) == begin_all(varied, 20)


def test_an_env_that_is_built_again_is_as_reproducible_as_any():
    def run():
        envs = make("sync", Counted, 3, autoreset="same-step")
        varied = scenarios.VaryScenarios(envs, scenarios.uniform(gain=(1.0, 2.0)), kwargs=["gain"])
        varied.reset(seed=5)
        return [varied.step(np.ones(3, np.int64))[1].tolist() for _ in range(40)]

    assert run() == run()


def test_registered_envs_know_their_constructor_arguments():
    with make("sync", "Pendulum-v1", 2, max_episode_steps=3, autoreset="same-step") as envs:
        varied = scenarios.VaryScenarios(envs, scenarios.uniform(g=(1.0, 20.0)))
        varied.reset(seed=0)
        for _ in range(7):
            varied.step(np.zeros((2, 1), np.float32))
            assert envs.get_attr("g") == tuple(values["g"] for values in varied.current)


def test_options_of_a_reset_are_added_and_win():
    with make("sync", Drift, 3) as envs:
        varied = scenarios.VaryScenarios(envs, scenarios.uniform(speed=(0.1, 0.2), spread=(0.0, 0.1)))
        obs, _ = varied.reset(seed=0, options={"speed": 0.7})
        assert obs[:, 1].tolist() == [0.7] * 3
    with make("compiled", Drift, 3) as envs:
        varied = scenarios.VaryScenarios(envs, scenarios.uniform(speed=(0.1, 0.2), spread=(0.0, 0.1)))
        assert varied.reset(seed=0, options=[{"speed": 0.7}, None, None])[0][:, 1].tolist()[0] == 0.7
        assert varied.reset(seed=0)[0][:, 1].tolist() == [values["speed"] for values in varied.current]


def test_partial_steps_draw_for_the_envs_that_begin():
    with make("compiled", Drift, 3, autoreset="same-step") as envs:
        varied = scenarios.VaryScenarios(envs, scenarios.uniform(speed=(0.3, 0.5)))
        varied.reset(seed=0)
        before = [values["speed"] for values in varied.current]
        over = False
        while not over:
            varied.send(np.ones(1, np.int64), [1])
            step = varied.recv()
            over = bool(step.done[0])
        after = [values["speed"] for values in varied.current]
        assert (after[0], after[2]) == (before[0], before[2])
        assert after[1] == step.obs[0, 1] != before[1]
        assert step.final_obs[0, 1] == before[1]


@pytest.mark.parametrize("engine", ["compiled", "process"])
@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_a_curriculum_holds_for_episodes_that_begin_after_its_progress(engine, mode):
    easy, hard = {"speed": 0.6}, {"speed": 0.7}
    envs = scenarios.VaryScenarios(make(engine, Drift, 2, autoreset=mode), scenarios.curriculum({0.0: easy, 0.5: hard}))
    obs, _ = envs.reset(seed=0)
    assert obs[:, 1].tolist() == [0.6, 0.6]
    envs.progress = 0.4
    for _ in range(20):
        assert set(envs.step(np.ones(2, np.int64))[0][:, 1]) == {0.6}
    envs.progress = 0.5
    later = [set(envs.step(np.ones(2, np.int64))[0][:, 1].tolist()) for _ in range(20)]
    assert later[0] <= {0.6, 0.7}
    assert later[-1] == {0.7}
    assert envs.current == [hard, hard]
    envs.close()


def test_a_curriculum_may_be_a_function_whose_parameters_come_and_go():
    def widening(progress):
        return scenarios.uniform(speed=(0.3 - 0.2 * progress, 0.3 + 0.2 * progress)) if progress else {"spread": 0.0}

    with make("compiled", Drift, 64) as envs:
        varied = scenarios.VaryScenarios(envs, scenarios.curriculum(widening))
        assert varied.reset(seed=0)[0].tolist() == [[0.0, 0.1]] * 64
        varied.progress = 1.0
        obs = varied.reset(seed=0)[0]
        assert obs[:, 1].min() < 0.15
        assert obs[:, 1].max() > 0.45
        assert np.unique(obs[:, 0]).size == 64


def test_a_state_resumes_exactly():
    def run(envs, steps):
        return [envs.step(np.ones(4, np.int64))[0].tolist() for _ in range(steps)]

    envs = make("compiled", Drift, 4, autoreset="same-step")
    varied = scenarios.VaryScenarios(envs, scenarios.uniform(speed=(0.1, 0.5)))
    varied.reset(seed=3)
    run(varied, 10)
    state, inside = varied.state_dict(), envs.get_state()
    expected, current = run(varied, 30), varied.current
    other_envs = make("compiled", Drift, 4, autoreset="same-step")
    other = scenarios.VaryScenarios(other_envs, scenarios.uniform(speed=(0.1, 0.5)))
    other.reset(seed=8)
    other_envs.set_state(inside)
    other.load_state_dict(state)
    assert run(other, 30) == expected
    assert other.current == current
    with pytest.raises(SpaceError, match="4 envs"), make("compiled", Drift, 3) as three:
        scenarios.VaryScenarios(three, {"speed": 0.2}).load_state_dict(state)


def test_it_stacks_with_other_wrappers():
    envs = make("compiled", Drift, 4, autoreset="same-step")
    inner = scenarios.VaryScenarios(envs, scenarios.uniform(speed=(0.1, 0.5)))
    outer = vecenv.wrappers.RecordEpisodeStatistics(inner)
    outside = scenarios.VaryScenarios(
        vecenv.wrappers.RecordEpisodeStatistics(make("compiled", Drift, 4, autoreset="same-step")),
        scenarios.uniform(speed=(0.1, 0.5)),
    )
    assert begin_all(outer, 30) == begin_all(outside, 30)


def test_an_env_that_fails_in_reset_begins_with_its_draw_after_a_restart():
    class Shy(Counted):
        shy = True

        def reset(self, *, seed=None, options=None):
            if Shy.shy and Shy.resets > 3:
                Shy.shy = False
                raise RuntimeError("not now")
            return super().reset(seed=seed, options=options)

    Shy.resets = 0
    Counted.resets = 0
    envs = vecenv.make(Shy, 2, engine="sync", autoreset="same-step", on_error="restart")
    varied = scenarios.VaryScenarios(envs, scenarios.uniform(start=(1.0, 2.0)), kwargs=[])
    varied.reset(seed=0)
    for _ in range(30):
        Shy.resets = Counted.resets
        obs = varied.step(np.ones(2, np.int64))[0]
        assert obs[:, 2].tolist() == [values["start"] for values in varied.current]
    assert not Shy.shy


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_an_env_that_is_rebuilt_after_a_failure_has_the_constructor_arguments_of_its_scenario(engine, tmp_path):
    class FailsOnce(Counted):
        def step(self, action):
            if self.left == 2 and not (tmp_path / "failed").exists():
                (tmp_path / "failed").touch()
                raise RuntimeError("once")
            return super().step(action)

    envs = make(engine, FailsOnce, 2, autoreset="next-step", on_error="restart")
    varied = scenarios.VaryScenarios(envs, {"gain": 4.0}, kwargs=["gain"])
    shown = begin_all(varied, 40)
    varied.close()
    assert (tmp_path / "failed").exists()
    assert {gain for seen in shown for gain, _ in seen} == {4.0}


@pytest.mark.parametrize("mode", ["next-step", "disabled"])
def test_a_worker_that_died_is_told_again(mode, tmp_path):
    class Mortal(Counted):
        def step(self, action):
            if self.left == 3 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os._exit(1)
            return super().step(action)

    envs = make("process", Mortal, 4, autoreset=mode, on_error="restart")
    varied = scenarios.VaryScenarios(envs, scenarios.uniform(start=(1.0, 2.0)), kwargs=[])
    shown = begin_all(varied, 40)
    varied.close()
    assert (tmp_path / "died").exists()
    for row, seen in enumerate(shown):
        drawn = scenarios.uniform(start=(1.0, 2.0)).draw(Noise(np.full(len(seen), 11 + row), np.arange(len(seen))))
        assert [start for _, start in seen] == drawn["start"].tolist()


def test_what_a_restarted_worker_could_not_know_is_refused():
    envs = make("process", Counted, 2, autoreset="same-step", on_error="restart")
    with pytest.raises(UnsupportedError, match="next-step"):
        scenarios.VaryScenarios(envs, {"start": 1.0})
    envs.close()


def test_uniform_draws_fill_their_bounds_evenly():
    drawn = scenarios.uniform(low=(2.0, 4.0), fixed=1.5).draw(noise())
    assert set(drawn["fixed"]) == {1.5}
    counts, _ = np.histogram(drawn["low"], bins=10, range=(2.0, 4.0))
    assert counts.sum() == 2000
    assert ((counts - 200) ** 2 / 200).sum() < 27.9  # chi-square with 9 degrees of freedom, one in a thousand


def test_logarithmic_draws_are_even_over_magnitudes():
    drawn = scenarios.uniform(rate=(1e-4, 1e-1), log=True).draw(noise())["rate"]
    counts, _ = np.histogram(np.log10(drawn), bins=3, range=(-4, -1))
    assert counts.min() > 600


def test_parameters_and_episodes_are_drawn_independently():
    pair = scenarios.uniform(one=(0, 1), other=(0, 1)).draw(noise())
    next_one = scenarios.uniform(one=(0, 1)).draw(Noise(np.arange(2000), np.ones(2000, np.int64)))
    assert abs(np.corrcoef(pair["one"], pair["other"])[0, 1]) < 0.08
    assert abs(np.corrcoef(pair["one"], next_one["one"])[0, 1]) < 0.08


def test_grids_and_lists_name_their_sets_and_draw_each_of_them():
    cells = scenarios.grid(speed=[0.1, 0.2], spread=(0.0, 0.5))
    assert [name for name, _ in cells.parts()] == [
        "speed=0.1, spread=0",
        "speed=0.1, spread=0.5",
        "speed=0.2, spread=0",
        "speed=0.2, spread=0.5",
    ]
    pairs = np.stack([cells.draw(noise())[name] for name in ("speed", "spread")], axis=1)
    assert np.unique(pairs, axis=0, return_counts=True)[1].min() > 400
    named = scenarios.list({"earth": {"g": 9.8}, "here": {}})
    assert [name for name, _ in named.parts()] == ["earth", "here"]
    near = scenarios.list([{}, {"g": 1 / 3}, {"g": 0.33333333}])
    assert [name for name, _ in near.parts()] == ["default", "g=0.333333", "{'g': 0.33333333}"]


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: scenarios.list([]), ConfigError, "no scenarios"),
        (lambda: scenarios.list([{"g": 1}, {"g": 1}]), ConfigError, "twice"),
        (lambda: scenarios.list([3]), ConfigTypeError, "a parameter set is a dict"),
        (lambda: scenarios.list(3), ConfigTypeError, "takes parameter sets"),
        (lambda: scenarios.grid(), ConfigError, "no parameters"),
        (lambda: scenarios.grid(g=9.8), ConfigTypeError, "values to try"),
        (lambda: scenarios.grid(g=[]), ConfigError, "no values"),
        (lambda: scenarios.uniform(), ConfigError, "no parameters"),
        (lambda: scenarios.uniform(g=(2, 1)), ConfigError, "in this order"),
        (lambda: scenarios.uniform(g=(1, 2, 3)), ConfigTypeError, "lowest, highest"),
        (lambda: scenarios.uniform(g=(0, 1), log=True), ConfigError, "positive"),
        (lambda: scenarios.curriculum({0.5: {"g": 1}}), ConfigError, "must start at 0.0"),
        (lambda: scenarios.curriculum({0.0: {"g": 1}, 2.0: {}}), ConfigError, "from 0 to 1"),
        (lambda: scenarios.curriculum(lambda progress: 3), ConfigTypeError, "progress 0"),
        (lambda: scenarios.curriculum([1]), ConfigTypeError, "function of progress"),
    ],
)
def test_wrong_scenarios_are_refused_where_they_are_written(build, error, says):
    with pytest.raises(error, match=says):
        build()


def test_scenarios_of_another_env_are_refused_before_anything_changes():
    with make("compiled", Drift, 2) as envs:
        with pytest.raises(ConfigTypeError, match="did you mean 'speed'"):
            scenarios.VaryScenarios(envs, scenarios.uniform(sped=(0, 1)))
        with pytest.raises(ConfigTypeError, match="another env"):
            scenarios.VaryScenarios(envs, [{"speed": 0.2}, {"gravity": 0.3}])
        with pytest.raises(ConfigError, match="progress must be"):
            scenarios.VaryScenarios(envs, {"speed": 0.2}, progress=1.5)
        assert envs.get_attr("speed") == (0.1, 0.1)
    with pytest.raises(UnsupportedError, match="vecenv vector env"):
        scenarios.VaryScenarios(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"), {"low": 0.0})


def test_other_spaces_by_a_constructor_argument_are_the_envs_failure():
    class Wide(Counted):
        def __init__(self, width=3):
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(-1, 1, (width,))

        def _seen(self):
            return np.zeros(self.observation_space.shape, np.float32)

    varied = scenarios.VaryScenarios(vecenv.make(Wide, 2, engine="sync"), {"width": 4}, kwargs=["width"])
    with pytest.raises(SpaceError, match="other spaces"):
        varied.reset(seed=0)
