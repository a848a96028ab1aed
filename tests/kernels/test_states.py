"""States in and out, rollouts, copies in other processes, threads."""

import copy
import math
import multiprocessing
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import vecenv
from tests.kernels.native_kernels import Helpers, Nested, Push, Uneven, Walk
from tests.kernels.test_native import equal
from vecenv._front.rollout import Snapshot
from vecenv.errors import ConfigError, ConfigTypeError, InvalidAction, KernelError, SpaceError, UnsupportedError
from vecenv.kernel.lower.columns import column_words

ROOT = Path(__file__).parents[2]


def actions_of(envs, steps, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (steps, envs.num_envs)) + int(envs.single_action_space.start)


def play(envs, actions):
    return [envs.step(batch) for batch in actions]


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
@pytest.mark.parametrize("definition", [Walk, Helpers, Uneven], ids=lambda definition: definition.__name__)
def test_a_state_that_is_set_is_played_again_bit_for_bit(definition, autoreset):
    envs = vecenv.make(definition, 5, autoreset=autoreset)
    envs.reset(seed=0)
    actions = actions_of(envs, 60)
    play(envs, actions[:20])
    state = envs.get_state()
    future = play(envs, actions[20:])
    envs.set_state(state)
    assert equal(play(envs, actions[20:]), future)
    fresh = vecenv.make(definition, 5, autoreset=autoreset)
    fresh.set_state(pickle.loads(pickle.dumps(state)))  # no reset: it goes on
    assert equal(play(fresh, actions[20:]), future)


def test_some_envs_and_one_for_many():
    envs = vecenv.make(Walk, 6)
    envs.reset(seed=0)
    one = envs.get_state([2])
    envs.step(np.ones(6, int))
    others = envs.state.x[[0, 1, 3]].copy()
    envs.set_state(one, [2, 4, 5])
    assert len({envs.state.x[row] for row in (2, 4, 5)}) == 1
    assert envs.state.x[[0, 1, 3]].tolist() == others.tolist()
    envs.clone(0, [1, 2])
    assert envs.state.x[:3].tolist() == [envs.state.x[0]] * 3
    obs = envs.step(np.array([0, 0, 0, 1, 1, 1]))[0]
    assert obs[0] == obs[1] == obs[2]


def test_looking_ahead_from_one_env_leaves_it_as_it_was():
    envs = vecenv.make("CartPole-v1", 2)
    envs.reset(seed=0)
    before = envs.get_state([0])
    envs.clone(0, 1)
    left, right = envs.step(np.array([0, 1]))[0]
    assert left[1] < right[1]
    envs.set_state(before, [0])
    assert equal(envs.get_state([0]).columns["S_x"], before.columns["S_x"])


def test_states_that_do_not_fit_are_refused():
    walk, push = vecenv.make(Walk, 2), vecenv.make(Push, 2)
    for envs in (walk, push):
        envs.reset(seed=0)
    with pytest.raises(SpaceError, match="Walk-v0"):
        walk.set_state(push.get_state())
    with pytest.raises(SpaceError, match="3"):
        vecenv.make(Walk, 3).set_state(walk.get_state())
    python = vecenv.make(Walk, 2, engine="sync")
    for call in (python.get_state, lambda: python.clone(0, 1), lambda: python.rollout(np.zeros((2, 2), int))):
        with pytest.raises(UnsupportedError, match="compiled"):
            call()


def test_the_state_can_be_read_and_written():
    envs = vecenv.make(Walk, 3)
    envs.reset(seed=0)
    envs.state.x[1] = 0.75
    assert envs.step(np.ones(3, int))[0][1] == np.float32(0.85)


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_rollout_is_so_many_steps(autoreset, workers):
    count = 2500 if workers == 2 else 7
    one, other = (vecenv.make(Walk, count, autoreset=autoreset, workers=workers) for _ in range(2))
    for envs in (one, other):
        envs.reset(seed=0)
        envs.step(np.ones(count, int))
    actions = actions_of(one, 70)
    rollout = one.rollout(actions)
    for turn, batch in enumerate(actions):
        other.send(batch)
        step = other.recv()
        assert equal(rollout.obs[turn], step.obs), turn
        assert equal(rollout.reward[turn], step.reward)
        assert equal((rollout.terminated[turn], rollout.truncated[turn]), (step.terminated, step.truncated))
        assert equal(rollout.next_obs[turn], step.next_obs)
        assert equal(rollout.valid[turn], step.valid)
        assert equal(rollout.infos["distance"][turn], step.infos["distance"])
    assert rollout.done.any()
    assert equal(one.get_state().columns, other.get_state().columns)
    assert equal(one.step(actions[0]), other.step(actions[0]))


THRESHOLDS = np.array([0.0, 0.5])


def lean(obs):
    return 1 if obs[0] < THRESHOLDS[0] else 0


def shove(obs, action):
    action[0] = 0.5 - obs[0]
    action[1] = THRESHOLDS[1]


def test_a_policy_runs_in_closed_loop():
    one, other = vecenv.make(Walk, 5), vecenv.make(Walk, 5)
    obs, _ = other.reset(seed=1)
    one.reset(seed=1)
    rollout = one.rollout(policy=lean, steps=80)
    for turn in range(80):
        chosen = np.array([lean(row) for row in obs])
        assert rollout.actions[turn].tolist() == chosen.tolist()
        obs = other.step(chosen)[0]
        assert equal(rollout.obs[turn], obs)
    envs = vecenv.make(Push, 3)
    obs, _ = envs.reset(seed=0)
    rollout = envs.rollout(policy=shove, steps=4)
    assert equal(rollout.actions[0][:, 0], (0.5 - obs[:, 0]).astype(np.float32))
    assert (rollout.actions[..., 1] == 0.5).all()


def test_wrong_rollouts_are_refused():
    envs = vecenv.make(Walk, 3)
    envs.reset(seed=0)
    for wrong in (
        {},
        {"actions": np.zeros((2, 3), int), "policy": lean},
        {"actions": np.zeros((2, 3), int), "steps": 2},
    ):
        with pytest.raises(ConfigError):
            envs.rollout(**wrong)
    for shape in ((3,), (2, 4), (0, 3)):
        with pytest.raises(InvalidAction):
            envs.rollout(np.zeros(shape, int))
    with pytest.raises(InvalidAction):
        envs.rollout(np.full((2, 3), 5))
    disabled = vecenv.make(Walk, 3, autoreset="disabled")
    disabled.reset(seed=0)
    with pytest.raises(ConfigError, match="autoreset"):
        disabled.rollout(np.zeros((2, 3), int))


def together(envs):
    """Use all threads, however small the work is."""
    envs.engine._tuner.trying, envs.engine._tuner.together = False, True
    return envs


@pytest.mark.parametrize("count", [1023, 1025, 4096, 9001])
def test_results_do_not_depend_on_the_number_of_threads(count):
    turns = np.where(np.arange(count) % 17 == 0, 300, 1)
    results = []
    for workers in (1, 2, 3):
        envs = vecenv.make(Uneven, count, workers=workers, autoreset="same-step", turns=turns)
        if workers > 1:
            together(envs)
        envs.reset(seed=0)
        results.append(play(envs, actions_of(envs, 25)))
        envs.close()
    assert equal(results[0], results[1])
    assert equal(results[0], results[2])


@pytest.mark.parametrize("copy", [True, False])
def test_no_thread_runs_if_an_action_of_another_threads_row_is_wrong(copy):
    envs = together(vecenv.make(Walk, 4096, workers=2, copy=copy))
    envs.reset(seed=0)
    envs.step(np.zeros(4096, int))
    before = envs.get_state()
    wrong = np.zeros(4096, int)
    wrong[4000] = 5
    with pytest.raises(InvalidAction, match="4000"):
        envs.step(wrong)
    after = envs.get_state()
    assert all(np.array_equal(column, after.columns[name], equal_nan=True) for name, column in before.columns.items())
    envs.step(np.ones(4096, int))
    envs.close()


def test_threads_end_with_the_envs():
    before = threading.active_count()
    envs = together(vecenv.make(Walk, 4096, workers=3))
    envs.reset(seed=0)
    envs.step(np.zeros(4096, int))
    assert threading.active_count() == before + 2
    envs.close()
    assert threading.active_count() == before


def test_which_way_is_faster_is_measured():
    envs = vecenv.make(Uneven, 8192, workers=2, turns=100)
    envs.reset(seed=0)
    assert envs.engine._tuner.trying
    play(envs, actions_of(envs, 12))
    assert not envs.engine._tuner.trying
    assert set(envs.engine._tuner._best.values()) != {float("inf")}


def test_a_forked_child_goes_on_with_its_copy():
    envs = together(vecenv.make(Walk, 3000, workers=2))
    envs.reset(seed=0)
    actions = actions_of(envs, 30)
    play(envs, actions[:10])
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child():
        theirs.send([batch[0].tobytes() for batch in play(envs, actions[10:])])
        envs.close()

    process = context.Process(target=child)
    process.start()
    expected = [batch[0].tobytes() for batch in play(envs, actions[10:])]
    assert ours.poll(30)
    assert ours.recv() == expected
    process.join(30)
    assert process.exitcode == 0
    envs.close()


@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_pickled_and_copied_envs_go_on_alike(autoreset):
    envs = vecenv.make(Helpers, 6, autoreset=autoreset, size=np.linspace(0.1, 1, 6))
    envs.reset(seed=0)
    actions = actions_of(envs, 50)
    play(envs, actions[:15])
    twins = [pickle.loads(pickle.dumps(envs)), copy.deepcopy(envs)]
    future = play(envs, actions[15:])
    for twin in twins:
        assert twin.autoreset_mode is envs.autoreset_mode
        assert equal(play(twin, actions[15:]), future)


def test_a_pickle_is_read_in_a_new_process(tmp_path):
    envs = vecenv.make("Acrobot-v1", 4)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 3, (20, 4))
    play(envs, actions[:10])
    (tmp_path / "envs").write_bytes(pickle.dumps(envs))
    np.save(tmp_path / "actions.npy", actions)
    script = (
        "import pickle, sys, numpy as np\n"
        "envs = pickle.load(open(sys.argv[1] + '/envs', 'rb'))\n"
        "actions = np.load(sys.argv[1] + '/actions.npy')\n"
        "sys.stdout.buffer.write(b''.join(envs.step(a)[0].tobytes() for a in actions[10:]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, check=True, timeout=50)
    assert done.stdout == b"".join(results[0].tobytes() for results in play(envs, actions[10:]))


def test_ctrl_c_during_native_code_leaves_nothing_hanging():
    script = (
        "import os, signal, threading, numpy as np, vecenv, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.kernels.native_kernels import Uneven\n"
        "envs = vecenv.make(Uneven, 4096, workers=2, turns=100000)\n"
        "envs.engine._tuner.trying, envs.engine._tuner.together = False, True\n"
        "envs.reset(seed=0)\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    envs.step(np.zeros(4096, int))\n"
        "    print('not interrupted')\n"
        "except KeyboardInterrupt:\n"
        "    try:\n"
        "        envs.step(np.zeros(4096, int))\n"
        "    except vecenv.errors.NotResetError as error:\n"
        "        print('needs a reset')\n"
        "    envs.engine.parameters['turns'][:] = 1\n"
        "    envs.engine._columns['OVERRIDE'][:] = 2\n"
        "    envs.reset(seed=1)\n"
        "    envs.step(np.zeros(4096, int))\n"
        "    print('works again')\n"
        "envs.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["needs a reset", "works again"]


def test_dict_actions_are_for_step():
    envs = vecenv.make(Nested, 2)
    envs.reset(seed=0)
    with pytest.raises(InvalidAction, match="step"):
        envs.rollout({"go": np.ones((3, 2), int)})


def guessing(obs):
    return int(math.gamma(2.0))


def test_a_policy_obeys_the_rules():
    envs = vecenv.make(Walk, 2)
    envs.reset(seed=0)
    with pytest.raises(KernelError, match="gamma") as caught:
        envs.rollout(policy=guessing, steps=2)
    assert caught.value.function == "guessing"
    with pytest.raises(ConfigTypeError, match="steps"):
        envs.rollout(policy=lean)


def test_a_snapshot_and_its_columns_are_shown_in_words_of_the_kernel():
    snapshot = Snapshot({"S_x": np.zeros(1), "O_0": np.zeros((1, 2)), "RNG": np.zeros((1, 6))}, np.ones(1, bool))
    assert repr(snapshot) == "Snapshot of 1 env(x=array([0.]))"
    names = ("S_x", "P_speed", "B_speed", "O_0", "F_1", "LAST_SEED")
    words = (
        "field 'x'",
        "parameter 'speed'",
        "parameter 'speed'",
        "the observation",
        "the final observation",
        "last seed",
    )
    assert tuple(map(column_words, names)) == words
