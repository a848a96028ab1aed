"""`vecenv.gym` gives what gym.vector gave; the oracle is Gymnasium's SyncVectorEnv in SAME_STEP mode."""

import inspect
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

import vecenv.gym
from tests.faces.face_envs import Breaks, Waits, Walk, cart_poles, oracle, row_of, same, walks
from vecenv.errors import ConfigError, SpaceError, UnsupportedError

STEPS = 60
CLASSES = (vecenv.gym.SyncVectorEnv, vecenv.gym.AsyncVectorEnv)


def build(kind, env_fns, **kwargs):
    """A vector env with results of gym 0.26, unless `kwargs` say otherwise."""
    if kind == "sync":
        return vecenv.gym.v26.SyncVectorEnv(env_fns, **kwargs)
    return vecenv.gym.v26.AsyncVectorEnv(env_fns, context="fork", **kwargs)


@pytest.fixture(params=["sync", "process"])
def kind(request):
    return request.param


@pytest.fixture(params=[cart_poles, walks], ids=["cart_poles", "walks"])
def env_fns(request):
    return request.param(3)


def actions_of(envs, count=STEPS):
    envs.action_space.seed(7)
    return [envs.action_space.sample() for _ in range(count)]


def histories(kind, env_fns, **kwargs):
    """Pairs of (our step, the oracle's step) with the same seeds and actions."""
    with build(kind, env_fns, **kwargs) as ours:
        theirs = oracle(env_fns)
        ours.reset(seed=3)
        theirs.reset(seed=3)
        pairs = [(ours.step(actions), theirs.step(actions)) for actions in actions_of(theirs)]
        theirs.close()
    assert any((step[2] | step[3]).any() for _, step in pairs)
    return pairs


QUICKSTART = """
import numpy as np
import vecenv

envs = vecenv.gym.make("CartPole-v1", num_envs=3)
envs.reset()
actions = np.array([1, 0, 1])
observations, rewards, dones, infos = envs.step(actions)
assert infos == ({}, {}, {})
print(observations.shape, rewards, dones)
"""


def test_the_quickstart_is_a_script_without_a_guard_and_leaves_nothing_to_say(tmp_path):
    path = tmp_path / "quickstart.py"
    path.write_text(QUICKSTART)
    run = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=120)
    assert run.stdout == "(3, 4) [1. 1. 1.] [False False False]\n"
    assert run.stderr == ""


def test_the_quickstart_of_gyms_documentation_runs_as_written():
    envs = vecenv.gym.make("CartPole-v1", num_envs=3)
    first = envs.reset()
    actions = np.array([1, 0, 1])
    observations, rewards, dones, infos = envs.step(actions)
    assert first.shape == observations.shape == (3, 4)
    assert same(rewards, np.ones(3))
    assert same(dones, np.zeros(3, np.bool_))
    assert infos == ({}, {}, {})
    envs.close()


@pytest.mark.parametrize("cls", CLASSES)
def test_the_default_is_four_values_and_a_tuple_of_dicts_with_the_terminal_observation(cls):
    env_fns = walks(3)
    with cls(env_fns) as ours:
        theirs, ended = oracle(env_fns), 0
        assert same(ours.reset(seed=3), theirs.reset(seed=3)[0])
        for actions in actions_of(theirs):
            (obs, rewards, dones, infos), expected = ours.step(actions), theirs.step(actions)
            assert all(map(same, (obs, rewards, dones), (*expected[:2], expected[2] | expected[3])))
            assert type(infos) is tuple
            for row in np.flatnonzero(dones):
                ended += 1
                assert same(infos[row]["terminal_observation"], expected[4]["final_obs"][row])
                assert infos[row]["TimeLimit.truncated"] == (expected[3][row] and not expected[2][row])
        theirs.close()
    assert ended


def test_v26_makes_what_gym_0_26_made():
    with vecenv.gym.v26.make("CartPole-v1", 2, False) as envs:
        assert isinstance(envs, vecenv.gym.v26.SyncVectorEnv)
        assert envs.reset(seed=0)[1] == {}
        assert len(envs.step([0, 1])) == 5
    with vecenv.gym.v26.make("CartPole-v1", 1, context="fork") as envs:
        assert isinstance(envs, vecenv.gym.v26.AsyncVectorEnv)


def test_cleanrls_loop_of_0_29_finds_the_returns_of_episodes():
    wrappers = [lambda env: gymnasium.wrappers.TimeLimit(env, 5), gymnasium.wrappers.RecordEpisodeStatistics]
    returns = []
    with vecenv.gym.v26.make("CartPole-v1", 2, False, wrappers) as envs:
        envs.reset(seed=0)
        for _ in range(12):
            _, _, _, _, infos = envs.step(np.array([0, 1]))
            if "final_info" in infos:
                for info in infos["final_info"]:
                    if info and "episode" in info:
                        returns.append(info["episode"]["r"])
    assert returns == [5.0] * 4


def test_five_tuples_are_bit_equal_to_gymnasiums_same_step(kind, env_fns):
    for ours, theirs in histories(kind, env_fns):
        assert len(ours) == 5
        assert all(map(same, ours[:4], theirs[:4]))


def test_four_tuples_have_dones_and_tell_truncation_in_infos(kind, env_fns):
    for (obs, rewards, dones, infos), theirs in histories(kind, env_fns, step_tuple=4):
        ended = theirs[2] | theirs[3]
        assert all(map(same, (obs, rewards, dones), (*theirs[:2], ended)))
        assert ("TimeLimit.truncated" in infos) == ended.any()
        if ended.any():
            assert same(infos["TimeLimit.truncated"], theirs[3] & ~theirs[2])
            assert same(infos["_TimeLimit.truncated"], ended)


def test_dict_infos_name_what_ended_an_episode_final_observation_and_final_info(kind, env_fns):
    for ours, theirs in histories(kind, env_fns):
        infos, expected = ours[4], theirs[4]
        assert ("final_observation" in infos) == ("final_obs" in expected)
        if "final_obs" in expected:
            assert infos["final_observation"].dtype == infos["final_info"].dtype == object
            assert same(infos["final_observation"], expected["final_obs"])
            assert same(infos["_final_observation"], expected["_final_obs"])
            assert same(infos["_final_info"], expected["_final_info"])


def test_final_observations_that_are_numbers_are_in_an_object_array_too(kind):
    lakes = [lambda: gymnasium.make("FrozenLake-v1", max_episode_steps=4)] * 3
    for ours, theirs in histories(kind, lakes):
        if "final_obs" in theirs[4]:
            assert ours[4]["final_observation"].dtype == object
            for row, ended in enumerate(theirs[2] | theirs[3]):
                assert ours[4]["final_observation"][row] == (theirs[4]["final_obs"][row] if ended else None)


def test_final_info_is_an_object_array_of_what_each_env_said_last(kind):
    rolled = 0
    for ours, theirs in histories(kind, walks(3)):
        infos, expected = ours[4], theirs[4]
        for row in np.flatnonzero(theirs[2] | theirs[3]):
            rolled += 1
            assert infos["final_info"][row]["clock"] == expected["final_info"]["clock"][row]
            assert infos["final_info"][row]["nested"] == {"odd": expected["final_info"]["nested"]["odd"][row]}
            assert infos["limit"][row] == expected["limit"][row]
            assert infos["_limit"][row]
    assert rolled


def test_dict_infos_are_flat_numbers_in_arrays_and_all_else_in_object_arrays(kind):
    for ours, theirs in histories(kind, walks(3)):
        infos, running = ours[4], ~(theirs[2] | theirs[3])
        if not running.any():
            continue
        assert same(infos["clock"], theirs[4]["clock"])
        assert same(infos["_clock"], running)
        assert infos["nested"].dtype == infos["track"].dtype == object
        for row in range(3):
            assert (infos["nested"][row] is None) == (not running[row])
            assert (infos["track"][row] is None) == (not running[row])
        first = int(np.flatnonzero(running)[0])
        assert infos["nested"][first] == {"odd": theirs[4]["nested"]["odd"][first]}
        assert same(infos["track"][first], theirs[4]["track"][first])


def test_list_infos_are_of_the_transition_with_its_terminal_observation(kind, env_fns):
    for ours, theirs in histories(kind, env_fns, infos="list"):
        infos, ended = ours[4], theirs[2] | theirs[3]
        assert isinstance(infos, list)
        for row, info in enumerate(infos):
            assert ("terminal_observation" in info) == ended[row]
            if ended[row]:
                assert same(info["terminal_observation"], theirs[4]["final_obs"][row])
                assert info["TimeLimit.truncated"] == (theirs[3][row] and not theirs[2][row])


def test_list_infos_at_an_ending_leave_out_what_the_reset_said(kind):
    for ours, theirs in histories(kind, walks(3), infos="list"):
        for row in np.flatnonzero(theirs[2] | theirs[3]):
            assert ours[4][row]["clock"] == theirs[4]["final_info"]["clock"][row]
            assert "limit" not in ours[4][row]


def test_reset_returns_obs_and_infos_with_five_values_and_obs_alone_with_four(kind):
    with build(kind, walks(2)) as five, build(kind, walks(2), step_tuple=4, infos="list") as four:
        obs, infos = five.reset(seed=1)
        assert same(infos["_limit"], np.array([True, True]))
        assert same(four.reset(seed=1), obs)
        again, dicts = four.reset(seed=1, return_info=True)
        assert same(again, obs)
        assert dicts == [{"limit": limit} for limit in infos["limit"]]
        assert same(five.reset(seed=1, return_info=False), obs)


def test_an_int_seed_is_counted_up_and_a_list_is_taken_as_it_is(kind):
    with build(kind, walks(3)) as envs:
        counted, _ = envs.reset(seed=5)
        listed, _ = envs.reset(seed=[5, 6, 7])
        assert same(counted, listed)


def test_seed_chooses_the_seeds_of_the_next_reset_only(kind):
    with build(kind, walks(2)) as envs:
        expected, _ = envs.reset(seed=11)
        assert envs.seed(11) == [11, 12]
        assert same(envs.reset()[0], expected)
        assert not same(envs.reset()[0], expected)
        envs.seed([11, None])
        assert same(row_of(envs.reset()[0], 0), row_of(expected, 0))


def test_options_reach_every_env_untouched(kind):
    options = {"reset_mask": "not ours", "level": 2}
    with build(kind, walks(2)) as envs:
        envs.reset(options=options)
        assert envs.get_attr("asked") == (options, options)


def test_async_halves_give_what_the_whole_calls_give(kind):
    with build(kind, walks(2)) as halves, build(kind, walks(2)) as whole:
        halves.reset_async(seed=4)
        assert all(map(same, halves.reset_wait(), whole.reset(seed=4)))
        for actions in actions_of(whole, 10):
            halves.step_async(actions)
            ours, theirs = halves.step_wait(), whole.step(actions)
            assert all(map(same, ours[:4], theirs[:4]))
        halves.call_async("name")
        assert halves.call_wait() == ("walk 0", "walk 1")


def test_waiting_for_what_was_not_started_is_an_error(kind):
    with build(kind, walks(2)) as envs:
        for name in ("reset", "step", "call"):
            with pytest.raises(NoAsyncCallError, match=f"`{name}_wait`") as caught:
                getattr(envs, f"{name}_wait")()
            assert caught.value.name == name


def test_starting_while_something_is_pending_is_an_error_that_loses_nothing(kind):
    with build(kind, walks(2)) as envs:
        envs.reset(seed=0)
        actions = np.array([0, 2])
        envs.step_async(actions)
        for start in (lambda: envs.step_async(actions), envs.reset_async, lambda: envs.call_async("name")):
            with pytest.raises(AlreadyPendingCallError):
                start()
        with pytest.raises(NoAsyncCallError):
            envs.reset_wait()
        assert len(envs.step_wait()) == 5


def test_a_prepared_call_must_be_waited_for_before_anything_else(kind):
    with build(kind, walks(2)) as envs:
        envs.reset(seed=0)
        envs.call_async("name")
        for start in (lambda: envs.step_async([0, 0]), envs.reset_async, lambda: envs.set_attr("name", "x")):
            with pytest.raises(AlreadyPendingCallError):
                start()
        assert envs.call_wait() == ("walk 0", "walk 1")


def test_a_timeout_can_be_waited_out(tmp_path):
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)
    with build("process", [lambda: Waits(gate)]) as envs:
        envs.reset(seed=0)
        envs.step_async([0])
        with pytest.raises(TimeoutError):
            envs.step_wait(timeout=0.05)
        with pytest.raises(AlreadyPendingCallError):
            envs.call("name")
        with open(gate, "w"):
            assert len(envs.step_wait()) == 5


def test_a_failed_env_is_named_and_reset_goes_on(kind):
    with build(kind, [Walk, Breaks]) as envs:
        envs.reset(seed=0)
        envs.step([1, 1])
        with pytest.raises(ZeroDivisionError) as caught:
            envs.step([1, 1])
        assert caught.value.row == 1
        envs.reset(seed=0)
        assert len(envs.step([1, 1])) == 5


def test_attributes_of_the_envs_are_read_set_and_called(kind):
    with build(kind, walks(2)) as envs:
        envs.set_attr("step_size", [2.0, 3.0])
        assert envs.get_attr("step_size") == (2.0, 3.0)
        envs.set_attr("step_size", 4.0)
        assert envs.call("step_size") == (4.0, 4.0)


def test_render_returns_one_frame_per_env(kind):
    with build(kind, [lambda: Walk(render_mode="rgb_array")] * 2) as envs:
        envs.reset(seed=0)
        frames = envs.render()
        assert [frame.shape for frame in frames] == [(2, 3, 3)] * 2


def test_closing_twice_is_fine_and_later_calls_are_refused(kind):
    envs = build(kind, walks(2))
    envs.reset(seed=0)
    envs.step_async([0, 0])
    envs.close(timeout=1.0)
    envs.close()
    assert envs.closed
    for call in (envs.reset, envs.step_wait, lambda: envs.step([0, 0]), lambda: envs.call("name")):
        with pytest.raises(ClosedEnvironmentError):
            call()


def test_what_a_vector_env_of_gym_had_is_there(kind):
    with build(kind, walks(2)) as envs:
        assert envs.is_vector_env
        assert envs.num_envs == len(envs.env_fns) == 2
        assert envs.single_action_space == Walk.action_space
        assert envs.single_observation_space == Walk.observation_space
        assert envs.observation_space == gymnasium.vector.utils.batch_space(Walk.observation_space, 2)
        assert envs.unwrapped is envs
        assert envs.copy
        assert "render_fps" in envs.metadata
        assert isinstance(envs, gymnasium.vector.VectorEnv)


def test_the_sync_env_shows_its_envs_and_the_async_one_its_processes():
    with build("sync", walks(2)) as sync, build("process", walks(2)) as asynchronous:
        assert [env.name for env in sync.envs] == ["walk 0", "walk 1"]
        pids = [process.pid for process in asynchronous.processes]
        assert all(process.is_alive() for process in asynchronous.processes)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("cls", [*CLASSES, vecenv.gym.v26.SyncVectorEnv, vecenv.gym.v26.AsyncVectorEnv])
def test_concrete_classes_have_gymnasiums_vector_env_as_a_direct_base(cls):
    assert gymnasium.vector.VectorEnv in cls.__bases__


def positional(function):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return [name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds]


def test_positional_order_is_that_of_gym_0_26():
    spaces = ["env_fns", "observation_space", "action_space"]
    rest = ["shared_memory", "copy", "context", "daemon", "worker"]
    assert positional(vecenv.gym.SyncVectorEnv) == [*spaces, "copy"]
    assert positional(vecenv.gym.AsyncVectorEnv) == [*spaces, *rest]
    assert positional(vecenv.gym.make) == ["id", "num_envs", "asynchronous", "wrappers", "disable_env_checker"]


def test_given_spaces_must_be_those_of_the_envs(kind):
    build(kind, walks(2), observation_space=Walk.observation_space, action_space=Walk.action_space).close()
    with pytest.raises(SpaceError, match="action_space"):
        build(kind, walks(2), action_space=gymnasium.spaces.Discrete(9))
    with pytest.raises(RuntimeError, match="observation_space"):
        build(kind, walks(2), observation_space=gymnasium.spaces.Discrete(9))


def test_a_custom_worker_is_refused_with_the_reason():
    with pytest.raises(UnsupportedError, match="pipe"):
        vecenv.gym.AsyncVectorEnv(walks(1), worker=print)


@pytest.mark.parametrize("wrong", [{"step_tuple": 6}, {"infos": "array"}])
def test_unknown_options_are_refused_before_anything_is_built(kind, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        build(kind, [None], **wrong)


def test_make_is_asynchronous_unless_told_otherwise():
    with vecenv.gym.make("CartPole-v1", 2, context="fork") as asynchronous:
        assert isinstance(asynchronous, vecenv.gym.AsyncVectorEnv)
        assert asynchronous.spec.id == "CartPole-v1"
    with vecenv.gym.make("CartPole-v1", 2, False) as sync:
        assert isinstance(sync, vecenv.gym.SyncVectorEnv)


def test_make_wraps_each_env_and_hands_constructor_arguments_on():
    wrappers = [gymnasium.wrappers.RecordEpisodeStatistics, lambda env: gymnasium.wrappers.TimeLimit(env, 3)]
    with vecenv.gym.make("CartPole-v1", 2, False, wrappers, sutton_barto_reward=True) as envs:
        envs.reset(seed=0)
        rewards = [envs.step([0, 1])[1] for _ in range(3)]
        assert same(np.array(rewards), np.zeros((3, 2)))
        assert envs.get_attr("episode_count") == (0, 0)


def test_make_accepts_one_wrapper_that_is_not_in_a_list():
    with vecenv.gym.make("CartPole-v1", 1, False, gymnasium.wrappers.RecordEpisodeStatistics) as envs:
        assert isinstance(envs.envs[0], gymnasium.wrappers.RecordEpisodeStatistics)


@pytest.mark.parametrize(("disabled", "checked"), [(None, [True, False]), (True, [False, False])])
def test_make_checks_env_0_alone(disabled, checked):
    with vecenv.gym.make("CartPole-v1", 2, False, disable_env_checker=disabled) as envs:
        assert ["PassiveEnvChecker" in str(env) for env in envs.envs] == checked


@pytest.mark.parametrize(("new_step_api", "length"), [(True, 5), (False, 4), (None, 4)])
def test_make_knows_new_step_api(new_step_api, length):
    with vecenv.gym.make("CartPole-v1", 1, False, new_step_api=new_step_api) as envs:
        envs.reset(seed=0)
        assert len(envs.step([0])) == length
