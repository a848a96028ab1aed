"""No statistic learns from NaN or infinity: that sample is left out and counted, all others count as if it were not."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.finite.sick_envs import LENGTH, Sick, sick
from vecenv.wrappers import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics
from vecenv.wrappers._moments import Moments

COUNT = 4
ZEROS = np.zeros(COUNT, int)
GOOD = [0, 1, 3]
RNG = np.random.default_rng(0)
with_every_bad_value = pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])


def equal(moments, others):
    """To the last bit."""
    assert moments.count == others.count
    np.testing.assert_array_equal(moments.mean, others.mean)
    np.testing.assert_array_equal(moments.var, others.var)
    assert np.isfinite(moments.mean).all()
    assert np.isfinite(moments.var).all()


# --- moments ----------------------------------------------------------------------------------------------------------


@with_every_bad_value
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 700)])
@pytest.mark.parametrize("normalizing", [False, True])
def test_moments_leave_out_the_bad_sample_alone(bad, dtype, shape, normalizing):
    ours, oracle = Moments(shape), Moments(shape)
    for turn in range(4):
        batch = RNG.normal(size=(COUNT, *shape)).astype(dtype)
        if turn == 2:
            batch.reshape(COUNT, -1)[2, -1] = bad
        good = batch[GOOD] if turn == 2 else batch
        if normalizing:
            normalized = ours.update_and_normalize(batch, 1e-8)
            oracle.update(good)
            np.testing.assert_array_equal(normalized, oracle.normalize(batch, 1e-8))
            assert np.isfinite(normalized).all() == (turn != 2)
        else:
            ours.update(batch)
            oracle.update(good)
        equal(ours, oracle)
        assert ours.skipped == (turn >= 2)
        np.testing.assert_array_equal(ours.std(1e-8), oracle.std(1e-8))


def test_moments_of_nothing_but_bad_samples_do_not_change():
    ours, oracle = Moments((2,)), Moments((2,))
    ours.update(np.full((3, 2), np.nan))
    assert np.isnan(ours.update_and_normalize(np.full((3, 2), np.inf), 1e-8)).sum() == 0
    equal(ours, oracle)
    assert ours.skipped == 6


@pytest.mark.parametrize(("value", "dtype"), [(1e300, np.float64), (1e30, np.float32)])
def test_finite_samples_whose_squares_are_not_are_left_out_as_a_batch(value, dtype):
    ours, oracle = Moments((2,)), Moments((2,))
    batch = np.ones((3, 2), dtype)
    batch[1, 0] = value
    ours.update(batch)
    ours.update_and_normalize(batch, 1e-8)
    equal(ours, oracle)
    assert ours.skipped == 6


@with_every_bad_value
def test_moments_are_not_combined_with_bad_ones(bad):
    ours = Moments((2,))
    ours.update(np.ones((3, 2)))
    oracle = ours.copy()
    ours.update_from_moments(np.array([1.0, bad]), np.ones(2), 5)
    ours.update_from_moments(np.ones(2), np.array([bad, 1.0]), 7)
    equal(ours, oracle)
    assert ours.skipped == 12


# --- wrappers ---------------------------------------------------------------------------------------------------------


@with_every_bad_value
@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_normalized_observations(bad, mode):
    faults = {2: [(1, 0, "x"), (1, 2, "x"), (1, LENGTH, "x"), (2, 1, "x")]}
    raw, inner = (
        vecenv.make(sick(COUNT, faults, bad=bad), engine="sync", check_finite="off", autoreset=mode) for _ in range(2)
    )
    outer, oracle = NormalizeObservation(inner, keys=["x"]), Moments((3,))
    outer.reset(seed=1)
    learn(oracle, raw.reset(seed=1)[0]["x"])
    for turn in range(2 * LENGTH):
        rows = None if turn % 3 else np.array([3, 2])
        actions = ZEROS if rows is None else ZEROS[:2]
        given, normalized = raw.step(actions, rows)[0]["x"], outer.step(actions, rows)[0]["x"]
        learn(oracle, given)
        equal(outer.obs_rms["x"], oracle)
        np.testing.assert_array_equal(normalized, oracle.normalize(given, 1e-8))
    assert outer.obs_rms["x"].skipped >= 3


def learn(moments, batch):
    moments.update(batch[np.isfinite(batch).all(axis=1)])


@with_every_bad_value
def test_scaled_rewards(bad):
    ill = vecenv.make(sick(COUNT, {2: [(1, 2, "reward")]}, bad=bad), engine="sync", check_finite="off")
    outer, oracle = NormalizeReward(ill, gamma=0.9), Moments(())
    outer.reset(seed=1)
    returns = np.zeros(COUNT)
    for turn in range(1, LENGTH):
        _, reward, *_ = outer.step(ZEROS)
        raw = 1.0 + np.arange(COUNT) + 0.5 * turn
        good = np.arange(COUNT) if turn != 2 else np.array(GOOD)
        returns *= 0.9
        returns[good] += raw[good]
        oracle.update(returns[good])
        equal(outer.return_rms, oracle)
        np.testing.assert_array_equal(outer.transform.returns, returns)
        np.testing.assert_array_equal(reward[good], raw[good] / np.sqrt(oracle.var + 1e-8))
        assert np.isfinite(reward[2]) == (turn != 2)
    assert outer.return_rms.skipped == 1


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_queues_of_episodes(mode):
    well, ill = (
        RecordEpisodeStatistics(vecenv.make(sick(COUNT, faults), engine="sync", check_finite="off", autoreset=mode))
        for faults in ({}, {2: [(1, 2, "reward")]})
    )
    for envs in (well, ill):
        envs.reset(seed=1)
        for _ in range(LENGTH):
            *_, infos = envs.step(ZEROS)
    assert np.isnan(infos["episode"]["r"][2])  # what happened is told
    assert list(ill.return_queue) == [well.return_queue[row] for row in GOOD]
    assert list(ill.length_queue) == [LENGTH] * 3
    assert len(ill.time_queue) == 3
    assert (ill.episode_count, ill.skipped) == (4, 1)
    for _ in range(LENGTH + (mode == "next-step")):
        for envs in (well, ill):
            envs.step(ZEROS)
    assert list(ill.return_queue)[-4:] == list(well.return_queue)[-4:]
    assert (ill.episode_count, ill.skipped) == (8, 1)


# --- Stable-Baselines3 ------------------------------------------------------------------------------------------------


class Box(gymnasium.ObservationWrapper):
    """The plain part of the observations."""

    observation_space = Sick.observation_space["x"]

    def observation(self, observation):
        return observation["x"]


@with_every_bad_value
def test_vec_normalize(bad):
    from vecenv import sb3

    faults = [(1, 2, "x"), (1, 3, "reward")]
    factories = [lambda row=row: Box(Sick(row, bad, faults if row == 2 else ())) for row in range(COUNT)]
    venv, raw = sb3.VecNormalize(sb3.DummyVecEnv(factories), gamma=0.9), sb3.DummyVecEnv(factories)
    obs, of_obs, of_returns, returns = raw.reset(), Moments((3,)), Moments(()), np.zeros(COUNT)
    learn(of_obs, obs)
    venv.reset()
    for _ in range(2 * LENGTH):
        normalized, scaled, dones, _ = venv.step(ZEROS)
        obs, reward, *_ = raw.step(ZEROS)
        learn(of_obs, obs)
        good = np.isfinite(reward)
        returns = returns * 0.9 + np.where(good, reward, 0)
        of_returns.update(returns[good])
        returns[dones] = 0
        equal(venv.obs_rms, of_obs)
        equal(venv.ret_rms, of_returns)
        np.testing.assert_array_equal(venv.returns, returns)
        np.testing.assert_array_equal(normalized, of_obs.normalize(obs, 1e-8, 10.0))
        assert np.isfinite(scaled[GOOD]).all()
    assert (venv.obs_rms.skipped, venv.ret_rms.skipped) == (1, 1)


def test_running_mean_std_of_smaller_samples():
    from vecenv.sb3.running_mean_std import RunningMeanStd

    ours, oracle = RunningMeanStd(shape=(3,)), RunningMeanStd(shape=(3,))
    ours.update(np.array([1.0, np.nan, 3.0]))
    oracle.update(np.array([1.0, 3.0]))
    equal(ours, oracle)
    ours.update(np.array([np.inf]))
    equal(ours, oracle)
    assert ours.skipped == 2


def test_monitors_tell_of_the_bad_episode_and_count_the_next_one_right():
    from vecenv import sb3

    def run(faults):
        factories = [lambda row=row: Box(Sick(row, np.nan, faults.get(row, ()))) for row in range(COUNT)]
        venv = sb3.VecMonitor(sb3.DummyVecEnv(factories))
        venv.reset()
        ended = []
        for _ in range(2 * LENGTH):
            *_, dones, infos = venv.step(ZEROS)
            if dones.all():
                ended.append([info["episode"]["r"] for info in infos])
        return np.array(ended)

    ill, well = run({2: [(1, 2, "reward")]}), run({})
    assert np.isnan(ill[0, 2])
    np.testing.assert_array_equal(ill[:, GOOD], well[:, GOOD])
    np.testing.assert_array_equal(ill[1], well[1])


# --- RLlib ------------------------------------------------------------------------------------------------------------


@with_every_bad_value
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_normalizer_of_rllib(bad):
    pytest.importorskip("ray.rllib")
    from vecenv.rllib import ObservationNormalizer

    space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    ours, clean = ObservationNormalizer(space), ObservationNormalizer(space)
    batch = RNG.normal(size=(COUNT, 3)).astype(np.float32)
    ill = batch.copy()
    ill[2, 1] = bad
    normalized = ours(batch={"obs": ill}, episodes=[])["obs"]
    clean(batch={"obs": batch[GOOD]}, episodes=[])
    assert np.isfinite(normalized[GOOD]).all()
    for kind in ("seen", "new"):
        one, other = ours.get_state()[kind][""], clean.get_state()[kind][""]
        np.testing.assert_array_equal(one["mean"], other["mean"])
        np.testing.assert_array_equal(one["var"], other["var"])
        assert one["count"] == other["count"]
    poisoned = ours.get_state()
    poisoned["new"][""]["mean"] = np.array([0.0, bad, 0.0])
    here = ObservationNormalizer(space)
    merged = here.merge_states([poisoned, clean.get_state()])["seen"][""]
    assert np.isfinite(merged["mean"]).all()
    np.testing.assert_array_equal(
        merged["mean"], ObservationNormalizer(space).merge_states([clean.get_state()])["seen"][""]["mean"]
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_episode_metrics_of_rllib():
    pytest.importorskip("ray.rllib")
    from ray.rllib.utils.metrics import EPISODE_LEN_MEAN, EPISODE_RETURN_MAX, EPISODE_RETURN_MEAN
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    from vecenv._util.episodes import EpisodeLog
    from vecenv.rllib._episodes import NOT_FINITE, STATS, log_episodes

    log = EpisodeLog(3)
    yes, no = np.ones(3, bool), np.zeros(3, bool)
    log.add(np.array([1.0, np.inf, 3.0]), no, yes)
    log.add(np.array([1.0, 1.0, 3.0]), yes, yes)
    log.add(np.array([5.0, 5.0, 5.0]), yes, yes)
    metrics = MetricsLogger(stats_cls_lookup=STATS, root=True)
    log_episodes(metrics, *log.take()[1:])
    assert metrics.peek(EPISODE_RETURN_MEAN) == (2 + 6 + 5 + 5 + 5) / 5
    assert metrics.peek(EPISODE_LEN_MEAN) == (2 + 2 + 1 + 1 + 1) / 5
    assert metrics.peek(EPISODE_RETURN_MAX) == 6
    assert metrics.peek(NOT_FINITE) == 1


# --- trainers, evaluation, curves -------------------------------------------------------------------------------------


@with_every_bad_value
def test_progress_of_trainers(bad):
    pytest.importorskip("torch")
    from vecenv.trainers._progress import Episodes

    ours = Episodes(3)
    yes, no = np.ones(3, bool), np.zeros(3, bool)
    ours.add(np.array([1.0, bad, 3.0]), no, yes)
    ours.add(np.ones(3), yes, yes)
    assert ours.mean() == (3.0, 2.0)
    assert (ours.ended, ours.skipped) == (3, 1)
    ours.add(np.full(3, 5.0), yes, yes)
    assert ours.mean() == ((2 + 4 + 15) / 5, 7 / 5)


class Short(gymnasium.Env):
    """Episodes of one step, whose reward is that of the seed; every third is bad."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.value = self.np_random.random()
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), float("nan") if self.value < 0.4 else self.value, True, False, {}


@pytest.mark.parametrize("check", ["off", "truncate"])
def test_evaluations_count_episodes_without_a_finite_return(check):
    result = vecenv.evaluate(lambda obs: np.zeros(len(obs), int), Short, episodes=30, check_finite=check)
    finite = result.returns[np.isfinite(result.returns)]
    assert 0 < result.not_finite == 30 - len(finite) < 30
    assert result.mean == finite.mean()
    (row,) = result.table
    assert (row.mean, row.median, row.episodes) == (finite.mean(), np.median(finite), 30)
    assert np.isfinite([row.std, row.iqm, row.iqm_low, row.iqm_high, row.mean_low, row.mean_high]).all()
    assert f"({result.not_finite} with a return that is not finite" in str(result)
    assert (result.returns >= 0.4)[np.isfinite(result.returns)].all()


def test_an_evaluation_of_nothing_but_bad_episodes_has_no_mean_and_ends():
    class Bad(Short):
        def step(self, action):
            return np.zeros(1), float("nan"), False, False, {}

    result = vecenv.evaluate(lambda obs: np.zeros(len(obs), int), Bad, episodes=3, check_finite="truncate")
    assert result.not_finite == 3
    assert np.isnan(result.mean)
    assert "nan" in str(result)


def test_curves():
    from vecenv.cli._curves import RunEpisodes, curve_of

    returns = np.arange(100.0)
    bad = returns.copy()
    bad[[3, 50]] = np.nan, np.inf
    steps = np.arange(1, 101) * 10
    fit = np.isfinite(bad)
    one, other = (
        curve_of("a", [RunEpisodes("a", steps, bad)]),
        curve_of("a", [RunEpisodes("a", steps[fit], returns[fit])]),
    )
    np.testing.assert_array_equal(one.mean, other.mean)
    assert np.isfinite(one.mean).all()
