"""make_vec_env, make_atari_env and Monitor next to SB3's own."""

import ale_py
import gymnasium
import numpy as np
import pytest
import stable_baselines3.common.env_util as their_util
import stable_baselines3.common.monitor as their_monitor

import vecenv.sb3 as ours
import vecenv.sb3.env_util as our_util
import vecenv.sb3.monitor as our_monitor
from tests.sb3.sb3_envs import Anything, same


def without_times(infos):
    for info in infos:
        if "episode" in info:
            del info["episode"]["t"]
    return infos


@pytest.mark.parametrize("env_id", ["CartPole-v1", Anything])
def test_make_vec_env_is_sb3s(env_id, tmp_path):
    keywords = {"n_envs": 2, "seed": 3, "start_index": 5, "wrapper_class": gymnasium.wrappers.TimeLimit}
    keywords["wrapper_kwargs"] = {"max_episode_steps": 9}
    mine = ours.make_vec_env(env_id, monitor_dir=str(tmp_path / "ours"), **keywords)
    reference = their_util.make_vec_env(env_id, monitor_dir=str(tmp_path / "theirs"), **keywords)
    assert mine.render_mode == reference.render_mode
    same(mine.reset(), reference.reset())
    samples = [[env.action_space.sample() for env in venv.envs] for venv in (mine, reference)]
    assert samples[0] == samples[1]
    for _ in range(100):
        actions = np.zeros(2, np.int64)
        step, their_step = mine.step(actions), reference.step(actions)
        same(step[:3], their_step[:3])
        same(without_times(step[3]), without_times(their_step[3]))
    mine.close()
    reference.close()
    names = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert names == ["5.monitor.csv", "6.monitor.csv"]
    columns = ["r", "l"]
    results = [ours.load_results(str(tmp_path / "ours")), their_monitor.load_results(str(tmp_path / "theirs"))]
    assert len(results[0]) == len(results[1])
    assert sorted(results[0][columns].itertuples(index=False)) == sorted(results[1][columns].itertuples(index=False))
    swapped = their_monitor.load_results(str(tmp_path / "ours"))
    assert swapped.equals(results[0])


def test_a_misspelt_argument_of_the_class_is_an_error():
    with pytest.raises(TypeError):
        ours.make_vec_env("CartPole-v1", vec_env_kwargs={"dummy": False})


@pytest.mark.filterwarnings("ignore:.*render_mode='rgb_array' that is not in the possible")
def test_an_env_without_render_modes_is_made_all_the_same():
    class Plain(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    gymnasium.register("vecenv_test/Plain-v0", Plain, disable_env_checker=True)
    try:
        assert ours.make_vec_env("vecenv_test/Plain-v0").render_mode is None
    finally:
        del gymnasium.registry["vecenv_test/Plain-v0"]


def test_workers_need_not_know_the_id():
    gymnasium.register("vecenv_test/Anything-v0", lambda render_mode: Anything())
    try:
        venv = ours.make_vec_env("vecenv_test/Anything-v0", vec_env_cls=ours.SubprocVecEnv)
        assert venv.reset().shape == (1, 3)
        venv.close()
    finally:
        del gymnasium.registry["vecenv_test/Anything-v0"]


def test_wrappers_are_found():
    env = gymnasium.wrappers.TimeLimit(ours.Monitor(Anything()), 3)
    assert our_util.unwrap_wrapper(env, ours.Monitor) is env.env
    assert our_util.is_wrapped(env, their_monitor.Monitor)
    assert not our_util.is_wrapped(env, gymnasium.wrappers.ClipAction)


def test_monitor_counts_as_sb3s_does():
    monitors = [cls(Anything(), info_keywords=("steps",)) for cls in (ours.Monitor, their_monitor.Monitor)]
    with pytest.raises(RuntimeError, match="needs reset"):
        monitors[0].step(0)
    episodes = [[], []]
    for found, env in zip(episodes, monitors, strict=True):
        env.reset(seed=4)
        while len(found) < 5:
            _, _, terminated, truncated, info = env.step(1)
            info.setdefault("steps", 0)
            if terminated or truncated:
                found.append({key: value for key, value in info["episode"].items() if key != "t"})
                env.reset()
    assert episodes[0] == episodes[1]
    assert monitors[0].get_episode_rewards() == monitors[1].get_episode_rewards()
    assert monitors[0].get_episode_lengths() == monitors[1].get_episode_lengths()
    assert monitors[0].get_total_steps() == monitors[1].get_total_steps()
    assert len(monitors[0].get_episode_times()) == 5


def test_monitor_may_refuse_early_resets_and_wants_its_keywords():
    env = ours.Monitor(Anything(), allow_early_resets=False, reset_keywords=("options",))
    with pytest.raises(ValueError, match="options"):
        env.reset()
    env = ours.Monitor(Anything(), allow_early_resets=False)
    env.reset()
    with pytest.raises(RuntimeError, match="before done"):
        env.reset()


def test_load_results_wants_files(tmp_path):
    with pytest.raises(our_monitor.LoadMonitorResultsError):
        ours.load_results(str(tmp_path))


@pytest.mark.parametrize("cls", [None, ours.SubprocVecEnv])
def test_make_atari_env_is_sb3s(cls):
    gymnasium.register_envs(ale_py)
    keywords = {"n_envs": 2, "seed": 1, "env_kwargs": {"render_mode": None}}
    mine = ours.make_atari_env("BreakoutNoFrameskip-v4", vec_env_cls=cls, **keywords)
    reference = their_util.make_atari_env("BreakoutNoFrameskip-v4", **keywords)
    try:
        same(mine.reset(), reference.reset())
        generator = np.random.default_rng(0)
        for _ in range(120):
            actions = generator.integers(4, size=2)
            step, their_step = mine.step(actions), reference.step(actions)
            same(step[:3], their_step[:3])
            same(without_times(list(step[3])), without_times(their_step[3]))
    finally:
        mine.close()
