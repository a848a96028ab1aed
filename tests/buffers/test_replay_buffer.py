"""The replay buffer."""

import itertools
import threading

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import vecenv
from tests.buffers.filling import ENVS, LENGTH, by_hand, make, play, same
from vecenv import Op, Step
from vecenv.buffers import ReplayBuffer, SumTree
from vecenv.errors import CallOrderError, ConfigError, SpaceError, UnknownRow, UnsafeFile
from vecenv.trainers._checkpoint import save_tree

BOX, PICK = spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(5)


def buffer_of(envs, capacity=ENVS * LENGTH, count=ENVS, **kwargs):
    return ReplayBuffer(envs.single_observation_space, envs.single_action_space, capacity, count, **kwargs)


def everything(buffer):
    """All that is stored, each lane from its oldest to its newest."""
    lanes = np.repeat(np.arange(buffer.lanes), buffer._stored)
    ages = np.concatenate([np.arange(count) for count in buffer._stored])
    slots = (buffer._head[lanes] - buffer._stored[lanes] + ages) % buffer.slots
    return buffer.gather(slots * buffer.lanes + lanes)


@pytest.mark.parametrize("stack", [None, 1])
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("mode", ["same-step", "next-step", "disabled"])
def test_every_mode_stores_the_transitions_that_were_made(mode, partial, stack):
    with make(mode, "process" if partial else "compiled") as envs:
        buffer = buffer_of(envs, stack=stack, capacity=2 * ENVS * LENGTH)
        play(envs, buffer.add, lambda obs, mask: None, partial=partial)
    assert len(buffer) == ENVS * LENGTH
    for env in range(ENVS):
        same(everything(buffer), env, by_hand(env))


@pytest.mark.parametrize("alpha", [None, 0.6])
@pytest.mark.parametrize("stack", [None, 1])
def test_several_vector_envs_write_at_once(stack, alpha):
    whole = [make("same-step"), make("next-step", "sync")]
    buffer = buffer_of(whole[0], 4 * ENVS * LENGTH, 2 * ENVS, stack=stack, alpha=alpha)
    threads = [
        threading.Thread(target=play, args=(envs, buffer.part(number * ENVS, ENVS).add, lambda obs, mask: None))
        for number, envs in enumerate(whole)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for env in range(2 * ENVS):
        same(everything(buffer), env, by_hand(env % ENVS))
    if alpha:
        assert buffer._tree.total == len(buffer)


def test_the_oldest_are_overwritten():
    with make("same-step") as envs:
        buffer = buffer_of(envs, capacity=ENVS * 11)
        play(envs, buffer.add, lambda obs, mask: None)
    assert len(buffer) == buffer.capacity == ENVS * 11
    for env in range(ENVS):
        same(everything(buffer), env, by_hand(env)[-11:])


def test_uniform_drawing_reaches_everything_and_nothing_else():
    with make("same-step") as envs:
        buffer = buffer_of(envs, capacity=ENVS * LENGTH * 2, seed=1)
        play(envs, buffer.add, lambda obs, mask: None, count=13, partial=True)
        drawn = buffer.sample(4000)
    counts = np.bincount(drawn.index, minlength=buffer.capacity)
    assert (counts > 0).sum() == len(buffer) == 13 * ENVS
    # 4000 draws of 39: each about 103 times, with a standard deviation of 10.
    assert counts[counts > 0].min() > 55
    assert counts.max() < 155
    once = buffer.sample(13 * ENVS, replace=False)
    assert len(set(once.index.tolist())) == 13 * ENVS
    with pytest.raises(CallOrderError, match="cannot sample 40 transitions from 39"):
        buffer.sample(40, replace=False)


# --- episodes of made-up numbers -------------------------------------------------------------------------------------


def step_of(obs, reward, terminated, truncated, env_ids, final=None):
    nothing = np.zeros(len(env_ids))
    return Step(obs, np.asarray(reward, float), terminated, truncated, {}, env_ids,
                np.full(len(env_ids), Op.ROLL, np.uint8), nothing, nothing, final)  # fmt: skip


def fill(buffers, draw_seed, exchanges, lanes, chance=0.2, shape=(2,), stack=None, zero_padding=False):
    """Random episodes for some buffers; returns, lane by lane, the transitions as plain tuples."""
    generator = np.random.default_rng(draw_seed)
    made = [[] for _ in range(lanes)]

    def first(lane_count):
        frames = generator.integers(0, 200, (lane_count, *shape)).astype(np.float32)
        if stack is None:
            return frames
        stacked = np.repeat(frames[:, None], stack, 1)
        if zero_padding:
            stacked[:, :-1] = 0
        return stacked

    obs = first(lanes)
    for _ in range(exchanges):
        who = np.sort(generator.permutation(lanes)[: generator.integers(1, lanes + 1)])
        new = generator.integers(0, 200, (len(who), *shape)).astype(np.float32)
        after = new if stack is None else np.concatenate([obs[who, 1:], new[:, None]], 1)
        terminated, truncated = (generator.random((2, len(who))) < chance / 2).astype(bool)
        reward, actions = generator.normal(size=len(who)), generator.integers(0, 5, len(who))
        ended = terminated | truncated
        shown, begun = after.copy(), first(len(who))
        shown[ended] = begun[ended]
        step = step_of(shown, reward, terminated, truncated, who, after)
        for buffer in buffers:
            buffer.add(obs[who], actions, step)
        for row, lane in enumerate(who):
            made[lane].append(
                (obs[lane].copy(), actions[row], np.float32(reward[row]), after[row], terminated[row], ended[row])
            )
        obs[who] = shown
    return made


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 6), st.sampled_from([None, 1]))
def test_n_step_rewards_stay_within_the_episode(seed, n, stack):
    buffer = ReplayBuffer(BOX, PICK, 40, 2, n_step=n, gamma=0.9, stack=stack)
    made = [lane[-len(lane) :] for lane in fill([buffer], seed, 60, 2)]
    found = everything(buffer)
    row = 0
    for lane in range(2):
        kept = made[lane][len(made[lane]) - buffer._stored[lane] :]
        for begin in range(len(kept)):
            total, at = 0.0, begin
            while True:
                total += 0.9 ** (at - begin) * float(kept[at][2])
                if kept[at][5] or at + 1 == len(kept) or at + 1 - begin == n:
                    break
                at += 1
            assert found.reward[row] == pytest.approx(total, rel=1e-5, abs=1e-6)  # stored as float32
            np.testing.assert_array_equal(found.obs[row], kept[begin][0])
            np.testing.assert_array_equal(found.next_obs[row], kept[at][3])
            assert found.actions[row] == kept[begin][1]
            expected = 0.0 if kept[at][4] else 0.9 ** (at + 1 - begin)
            assert found.discount[row] == pytest.approx(expected, rel=1e-6)
            assert found.terminated[row] == kept[at][4]
            row += 1


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.booleans(), st.sampled_from([0.05, 0.9]))
def test_frames_stored_once_are_the_same_as_stored_in_full(seed, zero_padding, chance):
    space = spaces.Box(0, 255, (4, 3, 3))
    full, lean = (ReplayBuffer(space, PICK, 60, 3, stack=stack) for stack in (None, 4))
    fill([full, lean], seed, 120, 3, chance, (3, 3), 4, zero_padding)
    assert (lean._stored <= full._stored).all()
    if chance < 0.1:
        assert len(lean) > 0.5 * len(full)  # each episode needs up to three places more
    for lane in range(3):
        count = lean._stored[lane]
        index = (full._head[lane] - 1 - np.arange(count)) % full.slots * 3 + lane
        lean_index = (lean._head[lane] - 1 - np.arange(count)) % lean.slots * 3 + lane
        np.testing.assert_array_equal(full.gather(index).obs, lean.gather(lean_index).obs)
        np.testing.assert_array_equal(full.gather(index).next_obs, lean.gather(lean_index).next_obs)
        np.testing.assert_array_equal(full.gather(index).reward, lean.gather(lean_index).reward)
    lean.sample(8)


def test_frames_stored_once_take_a_seventh_of_the_memory():
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    full, lean = (ReplayBuffer(space, PICK, 400, 2, stack=stack) for stack in (None, 4))
    assert lean.nbytes < full.nbytes / 6.5


def test_channels_last_stacks_and_parts_of_dicts():
    space = spaces.Dict({"image": spaces.Box(0, 255, (2, 2, 6)), "speed": spaces.Box(-1, 1, (2,))})
    buffer = ReplayBuffer(space, PICK, 10, 1, stack={"image": 2}, axis=-1)
    frames = np.arange(5 * 2 * 2 * 3, dtype=np.float32).reshape(5, 2, 2, 3)
    obs = [
        {"image": np.concatenate([frames[i], frames[i + 1]], -1)[None], "speed": np.full((1, 2), i, np.float32)}
        for i in range(4)
    ]
    no, who = np.zeros(1, bool), np.zeros(1, int)
    for now, after in itertools.pairwise(obs):
        buffer.add(now, np.zeros(1, int), step_of(after, np.ones(1), no, no, who))
    found = everything(buffer)
    for row in range(3):
        np.testing.assert_array_equal(found.obs["image"][row], obs[row]["image"][0])
        np.testing.assert_array_equal(found.next_obs["image"][row], obs[row + 1]["image"][0])
        np.testing.assert_array_equal(found.next_obs["speed"][row], obs[row + 1]["speed"][0])


def test_observations_that_are_no_stacks_are_refused():
    buffer = ReplayBuffer(spaces.Box(0, 1, (4,)), PICK, 10, 1, stack=4)
    no, who = np.zeros(1, bool), np.zeros(1, int)
    with pytest.raises(SpaceError, match="not stacks of 4 frames"):
        buffer.add(np.zeros((1, 4)), np.zeros(1, int), step_of(np.ones((1, 4)), np.ones(1), no, no, who))
    with pytest.raises(SpaceError, match="not a stack of 3 frames"):
        ReplayBuffer(spaces.Box(0, 1, (4,)), PICK, 10, 1, stack=3)


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(1, 5))
def test_sequences_stay_within_the_episode(seed, length):
    buffer = ReplayBuffer(BOX, PICK, 60, 3, seed=0)
    fill([buffer], seed, 100, 3, chance=0.1)
    drawn = buffer.sample_sequences(20, length)
    assert drawn.obs.shape == (20, length, 2)
    np.testing.assert_array_equal(drawn.obs[:, 1:], drawn.next_obs[:, :-1])
    assert not (drawn.terminated | drawn.truncated)[:, :-1].any()


def test_a_reset_by_hand_is_an_end_for_n_steps():
    buffer = ReplayBuffer(BOX, PICK, 10, 1, n_step=3, gamma=1.0)
    no, who, obs = np.zeros(1, bool), np.zeros(1, int), np.zeros((1, 2), np.float32)
    for number in range(4):
        buffer.add(obs, np.zeros(1, int), step_of(obs, np.ones(1), no, no, who))
        if number == 1:
            buffer.cut([0])
    assert everything(buffer).reward.tolist() == [2, 1, 2, 1]


# --- priorities ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**31), st.integers(1, 70))
def test_the_sum_tree_finds_what_cumulated_sums_find(seed, size):
    generator = np.random.default_rng(seed)
    tree, weights = SumTree(size), np.zeros(size)
    for _ in range(3):
        index = generator.integers(0, size, 20)
        values = generator.integers(0, 4, 20).astype(float)  # integers add up exactly in any order
        values[-1] = 1.0
        tree.update(index, values)
        for place, value in zip(index, values, strict=True):
            weights[place] = value
    assert tree.total == weights.sum()
    np.testing.assert_array_equal(tree[np.arange(size)], weights)
    sums = np.arange(int(tree.total)) + 0.5
    np.testing.assert_array_equal(tree.search(sums), np.searchsorted(np.cumsum(weights), sums, side="right"))


def test_rounding_never_finds_a_weight_of_zero():
    tree = SumTree(7)
    tree.update(np.arange(7), np.array([0.1, 0, 0.3, 0, 0.2, 0, 0]))
    found = tree.search(np.array([0.0, np.nextafter(tree.total, 0), tree.total, 10.0]))
    assert (tree[found] > 0).all()


def test_drawing_is_in_proportion_to_priorities_and_weights_make_up_for_it():
    buffer = ReplayBuffer(BOX, PICK, 32, 2, alpha=0.7, seed=3)
    fill([buffer], 5, 40, 2)
    index = everything(buffer).index
    priority = np.random.default_rng(1).uniform(0.1, 3, len(index))
    buffer.update_priorities(index, priority)
    chances = priority**0.7 / (priority**0.7).sum()
    counts = np.zeros(32)
    for _ in range(400):
        drawn = buffer.sample(16, beta=0.5)
        np.add.at(counts, drawn.index, 1)
        plain = dict(zip(index.tolist(), (len(buffer) * chances) ** -0.5, strict=True))
        weights = np.array([plain[place] for place in drawn.index.tolist()])
        np.testing.assert_allclose(drawn.weight, weights / weights.max(), rtol=1e-6)
    np.testing.assert_allclose(counts[index] / counts.sum(), chances, atol=0.012)  # 6400 draws, four deviations


def test_new_transitions_have_the_highest_priority_and_lost_ones_none():
    buffer = ReplayBuffer(BOX, PICK, 8, 1, alpha=1.0, stack=1)
    fill([buffer], 0, 6, 1, chance=0)
    buffer.update_priorities(np.array([2]), np.array([5.0]))
    no, who = np.zeros(1, bool), np.zeros(1, int)
    buffer.cut()
    buffer.add(np.zeros((1, 2)), np.zeros(1, int), step_of(np.ones((1, 2)), np.ones(1), no, no, who))
    assert buffer._tree[6] == 5.0
    for _ in range(12):  # a fresh episode each time: frames run out before transitions do
        buffer.cut()
        buffer.add(np.zeros((1, 2)), np.zeros(1, int), step_of(np.ones((1, 2)), np.ones(1), no, no, who))
    assert len(buffer) < 8
    assert np.count_nonzero(buffer._tree[np.arange(8)]) == len(buffer)


def test_wrong_priorities_are_refused():
    uniform, weighted = ReplayBuffer(BOX, PICK, 8), ReplayBuffer(BOX, PICK, 8, alpha=0.5)
    fill([uniform, weighted], 0, 4, 1)
    with pytest.raises(CallOrderError, match="samples uniformly"):
        uniform.update_priorities(np.array([0]), np.array([1.0]))
    with pytest.raises(ConfigError, match="must be positive"):
        weighted.update_priorities(np.array([0]), np.array([0.0]))
    for infinite in (np.inf, np.nan):
        with pytest.raises(ConfigError, match="must be positive and finite"):
            weighted.update_priorities(np.array([0]), np.array([infinite]))
    total = weighted._tree.total
    for place in (-3, 8, 1 << 40):
        with pytest.raises(UnknownRow, match=rf"there is no {place} among 8"):
            weighted.update_priorities(np.array([0, place]), np.ones(2))
        with pytest.raises(UnknownRow, match=rf"there is no {place} among 8"):
            SumTree(8).update([place], 5.0)
        with pytest.raises(UnknownRow, match=rf"there is no {place} among 8"):
            uniform.look_ahead(np.array([place, 0]), 2)
    assert weighted._tree.total == total
    with pytest.raises(CallOrderError, match="a part of a replay buffer"):
        ReplayBuffer(BOX, PICK, 8, 2).part(0, 1).look_ahead(np.array([0]), 2)
    with pytest.raises(ConfigError, match="less than one transition"):
        ReplayBuffer(BOX, PICK, 3, 4)


def test_runs_are_weighted_as_single_transitions_are():
    buffer = ReplayBuffer(BOX, PICK, 32, 1, alpha=1.0, seed=3)
    fill([buffer], 5, 20, 1, chance=0)
    priority = np.linspace(1, 4, 20)
    buffer.update_priorities(np.arange(20), priority)
    drawn = buffer.sample_sequences(12, 3, beta=1.0)
    weight = 1 / priority[drawn.index[:, 0]]
    np.testing.assert_allclose(drawn.weight, np.tile((weight / weight.max())[:, None], 3), rtol=1e-6)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [None, 1])
@pytest.mark.parametrize("alpha", [None, 0.5])
@pytest.mark.parametrize("steps", [5, 15, 40], ids=["some", "full", "wrapped"])
def test_a_saved_buffer_draws_the_same_and_goes_on_the_same(tmp_path, stack, alpha, steps):
    first, second = (ReplayBuffer(BOX, PICK, 30, 2, stack=stack, alpha=alpha, seed=seed) for seed in (1, 2))
    fill([first], 3, steps, 2)
    first.save(tmp_path / "buffer.npz")
    second.load(tmp_path / "buffer.npz")
    fill([first, second], 4, 10, 2) if stack is None else None
    for _ in range(3):
        one, two = first.sample(16), second.sample(16)
        np.testing.assert_array_equal(one.index, two.index)
        np.testing.assert_array_equal(one.obs, two.obs)
        np.testing.assert_array_equal(one.next_obs, two.next_obs)


@pytest.mark.parametrize("stack", [None, 1])
def test_a_buffer_that_holds_little_is_stored_small_and_loaded_into_a_used_one(stack):
    first, second = (ReplayBuffer(BOX, PICK, 100_000, 2, stack=stack, seed=seed) for seed in (1, 2))
    fill([first], 3, 20, 2)
    fill([second], 4, 50, 2)
    state = first.state_dict()
    assert sum(array.nbytes for array in state["arrays"].values()) < first.nbytes / 1000
    own = first.state_dict(copy=False)["arrays"]
    assert own.keys() == state["arrays"].keys()
    for name, array in own.items():
        np.testing.assert_array_equal(array, state["arrays"][name])
        assert not np.shares_memory(array, state["arrays"][name])
        assert np.shares_memory(array, first.state_dict(copy=False)["arrays"][name])
    second.load_state_dict(state)
    one, two = first.sample(64), second.sample(64)
    for name in ("obs", "next_obs", "reward", "index"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for name in ("reward", "newest" if stack else "next0"):
        short = {**state["arrays"], name: state["arrays"][name][:-1]}
        with pytest.raises(UnsafeFile, match=f"damaged: {name} has fewer than 32 rows"):
            second.load_state_dict({**state, "arrays": short})


def test_files_of_other_buffers_and_damaged_files_are_refused(tmp_path):
    buffer = ReplayBuffer(BOX, PICK, 30, 2)
    buffer.save(tmp_path / "buffer.npz")
    with pytest.raises(ConfigError, match="use the same arguments"):
        ReplayBuffer(BOX, PICK, 20, 2).load(tmp_path / "buffer.npz")
    save_tree(tmp_path / "checkpoint.npz", {"algorithm": "PPO"})
    with pytest.raises(UnsafeFile, match="not a vecenv replay buffer"):
        buffer.load(tmp_path / "checkpoint.npz")
    np.savez(tmp_path / "pickle.npz", about=np.array({}, dtype=object))
    for name in ("pickle.npz", "text.npz"):
        if name == "text.npz":
            (tmp_path / name).write_bytes(b"no arrays here")
        with pytest.raises(UnsafeFile, match="not a vecenv replay buffer"):
            buffer.load(tmp_path / name)


def test_samples_as_tensors_share_their_memory():
    buffer = ReplayBuffer(BOX, PICK, 30, 2, extras={"log_prob": np.float32})
    no, who, obs = np.zeros(2, bool), np.arange(2), np.zeros((2, 2), np.float32)
    buffer.add(obs, np.zeros(2, int), step_of(obs, np.ones(2), no, no, who), log_prob=np.array([0.5, 0.25]))
    sample = buffer.sample(5)
    tensors = sample.torch()
    tensors.obs[0, 0] = 9
    assert sample.obs[0, 0] == 9
    assert set(tensors.extras["log_prob"].tolist()) <= {0.5, 0.25}


def test_frame_stacks_of_the_wrapper_can_be_stored_once():
    envs = vecenv.wrappers.FrameStackObservation(make("same-step"), 4)
    full, lean = buffer_of(envs), buffer_of(envs, stack=4)
    obs, _ = envs.reset(seed=0)
    assert envs.autoreset_mode == AutoresetMode.SAME_STEP
    for _ in range(30):
        actions = envs.action_space.sample()
        envs.send(actions)
        step = envs.recv()
        full.add(obs, actions, step)
        lean.add(obs, actions, step)
        obs = step.obs
    np.testing.assert_array_equal(everything(full).obs, everything(lean).obs)
    np.testing.assert_array_equal(everything(full).next_obs, everything(lean).next_obs)


def test_stacks_may_hold_nan():
    buffer, no, who = ReplayBuffer(spaces.Box(-9, 9, (2,)), PICK, 8, 1, stack=2), np.zeros(1, bool), np.zeros(1, int)
    for frames in ([0.0, np.nan, 2.0], [np.nan, 2.0, 3.0]):
        obs, after = np.array([frames[:2]], np.float32), np.array([frames[1:]], np.float32)
        buffer.add(obs, np.zeros(1, int), step_of(after, np.ones(1), no, no, who))
    np.testing.assert_array_equal(everything(buffer).obs, [[0.0, np.nan], [np.nan, 2.0]])
