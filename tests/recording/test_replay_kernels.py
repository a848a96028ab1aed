"""Kernels and MuJoCo tasks that native code ran, replayed by Python: the same bits, and a debugger can enter."""

from dataclasses import replace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import vecenv
from vecenv.engines.recording.digests import digest_rows, is_digested
from vecenv.errors import ConfigError, UnsafeFile
from vecenv.recording import Recording

SHIPPED = [
    *("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1"),
    *("FrozenLake8x8-v1", "Taxi-v3", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Blackjack-v1", "FourRooms-v0"),
    *("Snake-v0", "Breakout-v0"),
]
TASKS = ["HalfCheetah-v5", "Ant-v5", "Hopper-v5", "Humanoid-v5", "Reacher-v5", "InvertedDoublePendulum-v5"]


@vecenv.kernel("ReplayedSlide-v0", max_episode_steps=30)
class Slide:
    """Slides until its speed is one over nothing."""

    observation_space, action_space = Box(-np.inf, np.inf, (2,), np.float64), Discrete(2)
    state = {"x": float, "left": float}
    bounds = {"fuel": (0.0, None)}

    class Params:
        speed = 0.1
        fuel = 1000.0

    def reset(s, rng, p):
        s.x, s.left = rng.uniform(0.0, 1.0), p.fuel

    def step(s, action, rng, p):
        s.left -= 1.0
        s.x += p.speed * rng.normal(0.0, 1.0) / s.left
        return s.x, False

    def observe(s, obs, p):
        obs[0], obs[1] = s.x, s.left


def recorded(env, steps=60, row=1, build=None, begin=0, **options):
    """What the recorder writes of one of three rows that native code runs, in its second episode."""
    envs = vecenv.make(env, 3, autoreset="disabled", check_finite="off", **options)
    envs.reset(seed=5)
    envs.reset()
    envs.action_space.seed(0)
    batch, engine = envs._batch, envs.engine
    obs, actions, results, columns = [], [], [], {}
    for step in range(begin + steps + 1):
        if step == begin:
            columns = {name: np.array(column[row]) for name, column in engine.get_rows(np.arange(3)).items()}
        if step >= begin:
            obs.append([column[row].copy() for column in batch.obs])
        if step == begin + steps or (results and (results[-1][1] or results[-1][2])):
            break
        _, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
        others = (terminated | truncated) & (np.arange(3) != row)
        if step >= begin:
            actions.append([column[row].copy() for column in batch.actions])
            results.append((reward[row], terminated[row], truncated[row]))
        if others.any():
            envs.reset(options={"reset_mask": others})
    layouts, limit = (engine.facts.observation_layout, engine.facts.action_layout), engine.max_episode_steps
    envs.close()
    stacked = [np.array([moment[leaf] for moment in obs]) for leaf in range(len(layouts[0].leaves))]
    digested = tuple(is_digested(column[0].nbytes) for column in stacked)
    rewards, terminations, truncations = map(np.array, zip(*results, strict=True))
    return Recording(
        row=row,
        num_envs=3,
        engine=engine.name,
        autoreset="disabled",
        versions={},
        build=build or {"kind": "kernel", "id": env, "where": None, "params": {}, "max_episode_steps": limit},
        start={"kind": "kernel-state", "columns": columns},
        options={"kind": "none"},
        action_paths=tuple(leaf.path for leaf in layouts[1].leaves),
        obs_paths=tuple(leaf.path for leaf in layouts[0].leaves),
        actions=tuple(np.array([moment[leaf] for moment in actions]) for leaf in range(len(layouts[1].leaves))),
        obs=tuple(digest_rows(one) if flag else one for one, flag in zip(stacked, digested, strict=True)),
        digested=digested,
        reward=rewards,
        terminated=terminations,
        truncated=truncations,
        steps=len(results),
    )


def slide(**changes):
    where = f"{Slide.__module__}:{Slide.__qualname__}"
    build = {"kind": "kernel", "id": "ReplayedSlide-v0", "where": where, "params": {}, "max_episode_steps": 30}
    return recorded(Slide, build={**build, **changes.pop("build", {})}, **changes)


@pytest.mark.parametrize("id", SHIPPED)
def test_every_kernel_is_replayed_bit_for_bit_by_python(id, tmp_path):
    made = recorded(id)
    told = vecenv.replay(made.save(tmp_path / "one.npz"))
    assert told.text.endswith("every bit as recorded")
    assert (told.outcome, told.steps) == ("clean", made.steps)
    if made.steps > 1 and not any(made.digested):
        spoilt = [column.copy() for column in made.obs]
        spoilt[0][-1] += 1
        told = vecenv.replay(replace(made, obs=tuple(spoilt)))
        assert (told.outcome, told.difference.step) == ("differs", made.steps)


@pytest.mark.parametrize("id", TASKS)
def test_mujoco_tasks_are_replayed_bit_for_bit_by_python(id):
    made = recorded(id, steps=15)
    assert made.engine == "mujoco"
    assert vecenv.replay(made).outcome == "clean"


def test_arguments_of_a_mujoco_task_are_those_of_the_recording():
    build = {"kind": "kernel", "id": "Hopper-v5", "where": None, "params": {"frame_skip": 2}, "max_episode_steps": 1000}
    made = recorded("Hopper-v5", steps=15, build=build, frame_skip=2)
    assert vecenv.replay(made).outcome == "clean"
    assert vecenv.replay(replace(made, build={**build, "params": {}})).outcome == "differs"


def test_parameters_of_the_episode_are_those_of_the_recording():
    made = slide(speed=np.array([0.1, 70.0, 0.2]), steps=20)
    assert vecenv.replay(made).outcome == "clean"
    assert np.ptp(made.obs[0][:, 0]) > 0.01


def test_time_limits_count_from_where_the_recording_begins():
    made = slide(begin=20)
    assert made.steps == 10
    assert made.truncated.tolist() == [False] * 9 + [True]
    assert vecenv.replay(made).outcome == "clean"


def test_where_native_code_goes_on_with_infinity_python_says_which_line_it_was():
    made = slide(steps=5, fuel=np.array([1e3, 5.0, 1e3]))
    assert not np.isfinite(made.obs[0][-1]).all()
    made = replace(made, failure={"kind": "not-finite", "phase": "step", "type": "NotFiniteError", "message": ""})
    told = vecenv.replay(made)
    assert told.outcome == "reproduced"
    assert (told.failure.step, told.failure.type) == (5, "KernelError")
    assert "ZeroDivisionError" in told.failure.message
    assert "test_replay_kernels.py" in told.failure.message
    told = vecenv.replay(replace(made, failure=None))
    assert told.outcome == "not reproduced"


def test_the_env_is_plain_python_in_the_state_of_the_row():
    made = slide(steps=20)
    states = []
    vecenv.replay(made, on_step=lambda step, env: states.append((env.unwrapped.state.x, env.unwrapped.state.left)))
    np.testing.assert_array_equal(states, made.obs[0])


def test_another_kernel_is_refused():
    made = slide(steps=5)
    with pytest.raises(ConfigError, match="the recording is of another kernel than CartPole-v1 is now"):
        vecenv.replay(made, "CartPole-v1")
    with pytest.raises(ConfigError, match="the recording is of a kernel, and 'LunarLander-v3' is not one"):
        vecenv.replay(made, "LunarLander-v3")
    columns = {**made.start["columns"], "S_x": np.float32(1).reshape(())}
    with pytest.raises(ConfigError, match="x does not fit"):
        vecenv.replay(replace(made, start={"kind": "kernel-state", "columns": columns}))
    assert vecenv.replay(made, Slide).outcome == "clean"


def test_a_parameter_outside_its_bounds_is_refused():
    made = recorded("Acrobot-v1", 3)
    columns = {**made.start["columns"], "P_low": np.float64(2**62).reshape(())}
    with pytest.raises(ConfigError, match="parameter 'low' must be in"):
        vecenv.replay(replace(made, start={"kind": "kernel-state", "columns": columns}))


def test_a_kernel_that_this_process_does_not_have_needs_trust():
    made = slide(build={"id": "NotHere-v0"}, steps=5)
    with pytest.raises(UnsafeFile, match=r"NotHere-v0 \(.*:Slide\)"):
        vecenv.replay(made)
    assert vecenv.replay(made, trust=True).outcome == "clean"


@pytest.mark.parametrize("id", SHIPPED)
def test_every_kernel_can_be_seen(id, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")
    frames = []
    vecenv.replay(recorded(id, 9), render_mode="rgb_array", on_step=lambda step, env: frames.append(env.render()))
    assert all(frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 for frame in frames)
    assert all(frame.shape == frames[0].shape and frame.std() > 0 for frame in frames)
    assert id.startswith(("Blackjack", "MountainCar")) or any((frame != frames[0]).any() for frame in frames)


def test_what_is_seen_of_a_kernel_is_what_gymnasium_draws():
    import gymnasium

    frames = []
    made = recorded("CartPole-v1")
    vecenv.replay(made, render_mode="rgb_array", on_step=lambda step, env: frames.append(env.render()))
    columns = made.start["columns"]
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=0)
    env.unwrapped.state = np.array([columns[f"S_{name}"] for name in ("x", "x_dot", "theta", "theta_dot")])
    np.testing.assert_array_equal(frames[0], env.render())
    for action, frame in zip(made.actions[0], frames[1:], strict=True):
        env.step(action)
        np.testing.assert_array_equal(frame, env.render())
    env.close()


def test_a_kernel_that_nothing_can_draw_says_so():
    with pytest.raises(ConfigError, match=r"ReplayedSlide-v0 defines no render\(s, p\)"):
        vecenv.replay(slide(), render_mode="rgb_array")
