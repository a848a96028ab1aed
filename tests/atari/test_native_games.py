"""Native games give what the games in Python give, to the last bit: the law of sameness, with all its variations."""

import numpy as np
import pytest

import vecenv
from tests.atari.games import actions, pair, same
from vecenv.atari import Preprocessing

BREAKOUT, PONG = "BreakoutNoFrameskip-v4", "ALE/Pong-v5"
OPTIONS = {
    "pong": (PONG, {}, "next-step", 30),
    "dqn": (BREAKOUT, {"preprocessing": "dqn"}, "same-step", 200),
    "dqn-sticky": ("ALE/Breakout-v5", {"preprocessing": "dqn", "full_action_space": True}, "next-step", 120),
    "restart": (BREAKOUT, {"preprocessing": {"episodic_life": "restart", "fire_reset": True}}, "same-step", 60),
    "rgb": ("ALE/Qbert-v5", {"preprocessing": {"grayscale": False, "screen_size": (96, 72)}}, "same-step", 20),
    "one-frame": (PONG, {"preprocessing": {"frame_stack": None, "frame_skip": 1, "max_pool": False}}, "next-step", 30),
    "whole-screen": (PONG, {"preprocessing": {"screen_size": (160, 210), "noop_max": 0}}, "next-step", 15),
    "short": (PONG, {"max_num_frames_per_episode": 50, "preprocessing": {"stack_padding": "zero"}}, "next-step", 40),
    "short-lives": (BREAKOUT, {"max_num_frames_per_episode": 130, "preprocessing": "dqn"}, "same-step", 100),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_native_games_are_the_games_in_python(name):
    game, kwargs, autoreset, steps = OPTIONS[name]
    native, python = pair(game, 2, autoreset=autoreset, **kwargs)
    with native, python:
        same(native.reset(seed=5), python.reset(seed=5))
        for chosen in actions(2, steps, native.single_action_space.n):
            same(native.step(chosen), python.step(chosen))
        assert native.observation_space == python.observation_space
        assert native.action_space == python.action_space
        np.testing.assert_array_equal(native.episode_return, python.episode_return)
        np.testing.assert_array_equal(native.episode_length, python.episode_length)


def test_episodes_end_in_these_runs():
    """Or the test above would say little: lives are lost, games end, time runs out."""
    with vecenv.make(BREAKOUT, 2, preprocessing="dqn") as envs:
        envs.reset(seed=5)
        lost = over = 0
        for chosen in actions(2, 200, 4):
            _, _, terminated, _, infos = envs.step(chosen)
            lost += (terminated & (infos["lives"] > 0)).sum()
            over += (terminated & (infos["lives"] == 0)).sum()
    assert lost > 5
    assert over > 0


def test_disabled_autoreset_waits_for_a_reset_of_those_that_are_done():
    native, python = pair(
        BREAKOUT, 2, autoreset="disabled", preprocessing={"episodic_life": "restart", "fire_reset": True}
    )
    with native, python:
        same(native.reset(seed=5), python.reset(seed=5))
        ends = 0
        for chosen in actions(2, 60, 4):
            step = native.step(chosen)
            same(step, python.step(chosen))
            done = step[2] | step[3]
            if done.any():
                ends += 1
                with pytest.raises(vecenv.errors.NotResetError):
                    native.step(chosen)
                same(native.reset(options={"reset_mask": done}), python.reset(options={"reset_mask": done}))
        assert ends > 1


def test_some_envs_step_while_the_others_stand_still():
    native, python = pair(PONG, count=4)
    with native, python:
        same(native.reset(seed=1), python.reset(seed=1))
        for ids in ([2], [3, 0], [2, 1, 3]):
            chosen = np.arange(len(ids)) + 1
            same(native.step(chosen, env_ids=ids), python.step(chosen, env_ids=ids))
        same(native.step(np.zeros(4, np.int64)), python.step(np.zeros(4, np.int64)))


def test_partial_reset_leaves_the_other_games_alone():
    native, python = pair(PONG)
    mask = np.array([False, True, False])
    with native, python:
        native.reset(seed=1), python.reset(seed=1)
        for chosen in actions(3, 10, 6):
            native.step(chosen), python.step(chosen)
        given = {"seed": [None, 77, None], "options": {"reset_mask": mask}}
        same(native.reset(**given), python.reset(**given))
        for chosen in actions(3, 10, 6):
            same(native.step(chosen), python.step(chosen))


def test_an_env_depends_on_its_seed_alone():
    """Not on how many others there are, nor on the order in which they are waited for."""
    chosen = actions(1, 20, 6)[:, 0]
    with vecenv.make(PONG, 1, preprocessing=True) as alone, vecenv.make(PONG, 5, preprocessing=True) as five:
        alone.reset(seed=7), five.reset(seed=4)
        for action in chosen:
            one, many = alone.step(np.array([action])), five.step(np.full(5, action))
            np.testing.assert_array_equal(one[0][0], many[0][3])
            assert one[4]["frame_number"][0] == many[4]["frame_number"][3]


def test_games_that_nobody_seeded_differ():
    with vecenv.make(PONG, 4, preprocessing=True) as envs:
        _, infos = envs.reset()
        assert len(set(infos["frame_number"].tolist())) > 1
        screens = set()  # alike until the ball is served
        while len(screens) < 2:
            screens = {frames.tobytes() for frames in envs.step(np.full(4, 2))[0]}


def test_whoever_is_ready_first_is_received_first_and_everybody_once():
    with (
        vecenv.make(PONG, 4, preprocessing=True, batch_size=2) as envs,
        vecenv.make(PONG, 4, preprocessing=True, engine="sync") as python,
    ):
        obs, _ = envs.reset(seed=0)
        expected, _ = python.reset(seed=0)
        steps = np.zeros(4, np.int64)
        envs.send(np.ones(4, np.int64))
        for _ in range(12):
            step = envs.recv()
            assert len(set(step.env_ids.tolist())) == 2
            steps[step.env_ids] += 1
            obs[step.env_ids] = step.obs
            envs.send(np.ones(2, np.int64), step.env_ids)
        last = envs.recv(4)
        steps[last.env_ids] += 1
        assert last.env_ids.tolist() == list(range(4))
        for row, count in enumerate(steps):
            for _ in range(count):
                expected = python.step(np.ones(1, np.int64), env_ids=[row])[0]
            np.testing.assert_array_equal(last.obs[row], expected[0])


def test_fixed_order_is_the_order_of_sends():
    with vecenv.make(PONG, 4, preprocessing=True, order="fixed") as envs:
        envs.reset(seed=0)
        envs.send(np.zeros(2, np.int64), [3, 2])
        envs.send(np.zeros(2, np.int64), [1, 0])
        assert envs.recv(2).env_ids.tolist() == [2, 3]
        assert envs.recv(1).env_ids.tolist() == [0]
        assert envs.recv(1).env_ids.tolist() == [1]


def test_fixed_order_holds_where_episodes_end():
    """Row 0 alone ends its episode, and begins the next within the same step."""
    each = [{"max_num_frames_per_episode": 8}, {}, {}]
    with vecenv.make(PONG, 3, preprocessing=True, order="fixed", autoreset="same-step", env_kwargs=each) as envs:
        envs.reset(seed=0)
        ended = 0
        for _ in range(6):
            envs.send(np.zeros(3, np.int64))
            steps = [envs.recv(1) for _ in range(3)]
            assert [step.env_ids.tolist() for step in steps] == [[0], [1], [2]]
            ended += steps[0].truncated.sum()
        assert ended >= 2


def test_a_slow_reset_does_not_hold_up_the_others():
    with vecenv.make(PONG, 3, preprocessing=True, batch_size=1) as envs:
        envs.reset(seed=0)
        envs._batch.seed[1] = 5  # a seeded game is loaded anew, which takes as long as many steps
        envs._batch.op[1] = vecenv.Op.RESET
        envs.engine.send(np.array([1]))
        envs._batch.op[[0, 2]] = vecenv.Op.STEP
        envs.engine.send(np.array([0, 2]))
        first = [envs.engine.recv(1)[0], envs.engine.recv(1)[0]]
        assert sorted(first) == [0, 2]
        assert envs.engine.recv(1).tolist() == [1]


def test_final_observations_are_told_densely_and_as_objects():
    with vecenv.make(PONG, 3, preprocessing=True, autoreset="same-step", max_num_frames_per_episode=12) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.zeros(3, np.int64))
        envs.send(np.zeros(3, np.int64))
        step = envs.recv()
        assert step.truncated.all()
        assert step.final_obs.shape == step.obs.shape
        assert step.infos["final_obs"].dtype == object
        assert step.infos["_final_obs"].all()
        assert (step.infos["final_info"]["episode_frame_number"] - step.infos["episode_frame_number"] != 0).all()
        for row in range(3):
            np.testing.assert_array_equal(step.final_obs[row], step.infos["final_obs"][row])
        assert not np.array_equal(step.final_obs, step.obs)
        np.testing.assert_array_equal(step.next_obs, step.final_obs)


def test_clipped_rewards_keep_the_raw_ones_beside_them():
    with vecenv.make("ALE/SpaceInvaders-v5", 4, preprocessing={"clip_reward": True}) as envs:
        _, infos = envs.reset(seed=0)
        assert (infos["raw_reward"] == 0).all()
        raw = []
        for chosen in actions(4, 120, 6):
            _, reward, _, _, infos = envs.step(chosen)
            np.testing.assert_array_equal(reward, np.sign(infos["raw_reward"]))
            raw.extend(infos["raw_reward"])
        assert max(raw) > 1


def test_the_raw_reward_of_a_first_observation_is_zero():
    with vecenv.make("ALE/SpaceInvaders-v5", 4, autoreset="disabled", preprocessing={"clip_reward": True}) as envs:
        envs.reset(seed=0)
        for chosen in actions(4, 120, 6):
            rewarded = envs.step(chosen)[4]["raw_reward"] != 0
            if rewarded.any():
                break
        _, infos = envs.reset(options={"reset_mask": rewarded})
        assert rewarded.any()
        assert (infos["raw_reward"][rewarded] == 0).all()


def test_a_life_that_is_lost_when_the_time_is_up_ends_the_game():
    """The native env reports the end of a life and the end of time alike."""
    with vecenv.make(BREAKOUT, 3, max_num_frames_per_episode=130, preprocessing="dqn") as envs:
        _, infos = envs.reset(seed=0)
        lives, begun = infos["lives"].copy(), infos["frame_number"].copy()
        lives[:2] -= 1  # two envs have lost a life, the second of them in its last frame
        frames = np.add(begun, [8, 130, 8])
        ended = np.array([True, True, False])
        told = {"lives": lives, "frame_number": frames}
        over = envs.engine._natively_over(np.arange(3), ended, np.zeros(3, bool), told)
        assert over.tolist() == [False, True, False]


def test_several_games_share_one_vector_env():
    games = ["ALE/Pong-v5", "ALE/Breakout-v5", "ALE/AirRaid-v5", "ALE/Pong-v5"]  # Air Raid's screen is 250 high
    native, python = pair(games, 1, preprocessing=Preprocessing(noop_max=5))
    with native, python:
        assert native.single_action_space.n == 18
        assert native.get_attr("game") == python.get_attr("game") == ("pong", "breakout", "air_raid", "pong")
        same(native.reset(seed=3), python.reset(seed=3))
        for chosen in actions(4, 40, 18):
            same(native.step(chosen), python.step(chosen))


POOLED = {
    "next-step": (BREAKOUT, {"preprocessing": {"episodic_life": "restart", "fire_reset": True}}, 60),
    "same-step": (PONG, {"max_num_frames_per_episode": 50}, 40),
    "disabled": (PONG, {"max_num_frames_per_episode": 50}, 40),
}


@pytest.mark.parametrize("autoreset", POOLED)
def test_a_pool_of_workers_gives_the_same(autoreset):
    game, kwargs, steps = POOLED[autoreset]
    kwargs = {"preprocessing": True, "autoreset": autoreset, **kwargs}
    with (
        vecenv.make(game, 3, engine="ale", workers=2, **kwargs) as pool,
        vecenv.make(game, 3, engine="sync", **kwargs) as python,
    ):
        same(pool.reset(seed=5), python.reset(seed=5))
        ends = 0
        for chosen in actions(3, steps, pool.single_action_space.n):
            step = pool.step(chosen)
            same(step, python.step(chosen))
            done = step[2] | step[3]
            ends += done.sum()
            if autoreset == "disabled" and done.any():
                same(pool.reset(options={"reset_mask": done}), python.reset(options={"reset_mask": done}))
        assert ends > 1
        mask = np.array([False, True, False])
        given = {"seed": [None, 77, None], "options": {"reset_mask": mask}}
        same(pool.reset(**given), python.reset(**given))
        with pytest.raises(vecenv.errors.UnsupportedError, match="without `workers`"):
            pool.step(np.array([1]), env_ids=[2])
        if autoreset == "same-step":
            same(pool.step(np.ones(3, np.int64)), python.step(np.ones(3, np.int64)))
        same(pool.reset(), python.reset())
