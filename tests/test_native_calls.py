"""Native code runs without the GIL: what it reads and writes belongs to the call, whatever other threads do."""

import threading

import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv._batch.layout import Layout
from vecenv.buffers import ReplayBuffer, _replay, _sum_tree, gae
from vecenv.buffers._sum_tree import native
from vecenv.errors import SpaceError
from vecenv.sb3 import VecNormalize, make_vec_env
from vecenv.wrappers import GrayscaleObservation
from vecenv.wrappers._moments import Moments

THREADS = 4


def side_by_side(work, rounds=150):
    """Run `work(number)` in several threads, over and over; raise what any of them raised."""
    start, errors = threading.Barrier(THREADS), []

    def run(number):
        try:
            start.wait(30)
            for _ in range(rounds):
                work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def batches(shape=(5,)):
    """A batch per thread, each of its own size: 1,000 times as large as that of the first."""
    rng = np.random.default_rng(0)
    return [rng.normal(number, 1.0 + number, (1 + 1000 * number, *shape)) for number in range(THREADS)]


@pytest.mark.parametrize("shape", [(5,), (1,), ()])
def test_threads_that_share_moments_normalize_their_own_batches(shape):
    given, moments = batches(shape), Moments(shape)
    moments.update(given[3])
    wanted = [moments.normalize(batch, 10.0**-number, clip=1.0 + number) for number, batch in enumerate(given)]

    def work(number):
        np.testing.assert_array_equal(
            moments.normalize(given[number], 10.0**-number, clip=1.0 + number), wanted[number]
        )

    side_by_side(work)


def test_no_update_of_shared_moments_is_lost():
    given, moments = batches(), Moments((5,), epsilon=0.0)

    def work(number):
        if number % 2:
            moments.update(given[number])
        else:
            moments.update_and_normalize(given[number], 1e-8)

    side_by_side(work, rounds=50)
    assert moments.count == 50 * sum(map(len, given))
    everything = np.concatenate(given)
    np.testing.assert_allclose(moments.mean, everything.mean(0))
    np.testing.assert_allclose(moments.var, everything.var(0))


def test_whoever_normalizes_has_the_moments_of_one_update_whole():
    moments = Moments((600,))
    states = [{"mean": np.full(600, float(k)), "var": np.full(600, float(k) + 1.0), "count": 1.0} for k in (0, 9)]
    moments.load_state_dict(states[0])
    batch = np.full((8, 600), 9.0)

    def work(number):
        if number == 0:
            moments.load_state_dict(states[1])
            moments.load_state_dict(states[0])
        else:
            assert np.unique(moments.normalize(batch, 1e-30)).tolist() in ([9.0], [0.0])

    side_by_side(work)


def test_threads_may_share_a_vec_normalize():
    venv = VecNormalize(make_vec_env("CartPole-v1", 4, seed=0))
    try:
        venv.reset()
        venv.training = False
        given = batches((4,))
        wanted = [venv.normalize_obs(batch) for batch in given]

        def work(number):
            np.testing.assert_array_equal(venv.normalize_obs(given[number]), wanted[number])

        side_by_side(work)
    finally:
        venv.close()


def test_threads_may_share_a_policy():
    torch = pytest.importorskip("torch")
    from vecenv.trainers import PPO, PPOConfig

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        config = PPOConfig(num_envs=4, rollout_steps=16, minibatch=32, hidden=(16,), normalize_obs=True)
        policy = PPO("CartPole-v1", config, seed=0).learn(64).policy
        given = [batch.astype(np.float32) for batch in batches((4,))]
        wanted = [policy(batch) for batch in given]

        def work(number):
            np.testing.assert_array_equal(policy(given[number]), wanted[number])

        side_by_side(work, rounds=30)
    finally:
        torch.set_num_threads(threads)


# --- arrays that are written to --------------------------------------------------------------------------------------


def run_gae(out):
    values, flags = np.ones((4, 2), np.float32), np.zeros((4, 2), np.bool_)
    return gae(values, values, values[0], flags, flags, gamma=0.9, lam=0.9, out=out)


def test_returns_are_written_to_the_arrays_given():
    out = np.empty((4, 2), np.float32), np.empty((4, 2), np.float32)
    written = run_gae(out)
    assert written[0] is out[0]
    assert written[1] is out[1]
    np.testing.assert_array_equal(written, run_gae(None))


def one_array():
    array = np.empty((4, 2), np.float32)
    return array, array


def overlapping():
    memory = np.empty((5, 2), np.float32)
    return memory[:4], memory[1:]


@pytest.mark.parametrize(
    ("make_out", "message"),
    [
        (lambda: (np.frombuffer(bytes(32), np.float32).reshape(4, 2),) * 2, "read-only"),
        (lambda: (np.empty((4, 2), np.float32), np.empty((3, 2), np.float32)), "shape"),
        (lambda: (np.empty((4, 2)), np.empty((4, 2))), "dtype"),
        (lambda: (np.empty((4, 4), np.float32)[:, ::2],) * 2, "contiguous"),
        (lambda: ([[0.0] * 2] * 4,) * 2, "contiguous arrays of dtype float32, got list"),
        (one_array, "shares memory"),
        (overlapping, "shares memory"),
    ],
)
def test_returns_are_not_written_to_arrays_that_cannot_hold_them(make_out, message):
    with pytest.raises(SpaceError, match=message):
        run_gae(make_out())


def test_returns_are_not_written_over_what_they_are_computed_from():
    values, flags = np.ones((4, 2), np.float32), np.zeros((4, 2), np.bool_)
    with pytest.raises(SpaceError, match="shares memory"):
        gae(values, values, values[0], flags, flags, gamma=0.9, lam=0.9, out=(np.empty_like(values), values))


# --- arrays that are read --------------------------------------------------------------------------------------------


def test_the_actions_of_a_rollout_are_not_the_callers_array():
    with vecenv.make("CartPole-v1", 2) as envs:
        envs.reset(seed=0)
        actions = np.ones((5, 2), np.int64)
        rollout = envs.rollout(actions)
        actions[:] = 0
        assert rollout.actions.all()


SHARED = np.zeros(4, np.int64)


class Changing(np.ndarray):
    """Indices that another thread changes as soon as they were looked at. Here whoever looks changes them."""

    def __gt__(self, other):
        answer = np.asarray(self) > other
        SHARED[:] = 10**9
        return answer


def test_actions_are_copied_before_they_are_checked():
    layout = Layout(gymnasium.spaces.Discrete(4))
    SHARED[:] = 1
    (plain,) = layout.pack(SHARED, 4)
    assert not np.shares_memory(plain, SHARED)
    (changed,) = layout.pack(SHARED.view(Changing), 4)
    assert np.asarray(changed).tolist() == [1] * 4


def test_indices_are_copied_before_they_are_checked(monkeypatch):
    def late(function):
        """Native code that begins when another thread has changed the caller's indices."""
        run = native(function)

        def call(table):
            SHARED[:] = 3
            run(table)

        return call

    monkeypatch.setattr(_sum_tree, "native", late)
    monkeypatch.setattr(_replay, "native", late)
    tree = _sum_tree.SumTree(4)
    SHARED[:] = 1
    tree.update(SHARED, 3.0)
    assert tree[np.arange(4)].tolist() == [0.0, 3.0, 0.0, 0.0]
    space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    buffer = ReplayBuffer(space, gymnasium.spaces.Discrete(2), 4)
    SHARED[:] = 1
    assert buffer.look_ahead(SHARED, 2)[2].tolist() == [2] * 4


def test_pictures_that_are_not_of_their_space_are_refused():
    class Small(gymnasium.vector.VectorEnv):
        num_envs, metadata = 2, {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        single_observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)
        observation_space = gymnasium.vector.utils.batch_space(single_observation_space, 2)
        single_action_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.vector.utils.batch_space(single_action_space, 2)

        def reset(self, *, seed=None, options=None):
            return np.zeros((2, 4, 4, 3), np.uint8), {}

    with pytest.raises(SpaceError, match=r"got pictures uint8 \(4, 4, 3\)"):
        GrayscaleObservation(Small()).reset()
