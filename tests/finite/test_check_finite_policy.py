"""`make(check_finite=...)`: NaN and infinity never reach a user unnoticed, on any engine, in any autoreset mode."""

import pickle
import threading
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests import twins
from tests.finite.sick_envs import LENGTH, MODES, Sick, kernels, leaves, rows_equal, sick
from vecenv.engines.finite import FiniteCheck
from vecenv.errors import ConfigError, EnvError, NotFiniteError, NotResetError, PendingError
from vecenv.wrappers import NormalizeObservation, RecordEpisodeStatistics

COUNT = 4
ZEROS = np.zeros(COUNT, int)
OTHERS = [0, 1, 3]
in_every_mode = pytest.mark.parametrize("mode", MODES)
on_every_engine = twins.on_every_engine


def only(row, count=COUNT):
    return np.arange(count) == row


def step(envs, mode):
    """A step of all; in disabled mode those that ended are reset first."""
    ended = getattr(envs, "_test_ended", None)
    if mode == "disabled" and ended is not None and ended.any():
        envs.reset(options={"reset_mask": ended})
    results = envs.step(np.zeros(envs.num_envs, int))
    envs._test_ended = results[2] | results[3]
    return results


def both(engine, mode, faults, check, **kwargs):
    """The vector env with a check, and the same without a fault."""
    ill = twins.make(engine, sick(COUNT, faults, **kwargs), autoreset=mode, check_finite=check)
    well = twins.make("sync", sick(COUNT, {}), autoreset=mode, check_finite="off")
    for envs in (ill, well):
        envs.reset(seed=7)
    return ill, well


# --- the default ------------------------------------------------------------------------------------------------------


@on_every_engine
@in_every_mode
def test_by_default_a_bad_reward_warns_once_per_env_and_observations_are_not_looked_at(engine, mode):
    faults = {2: [(1, 1, "reward"), (1, 2, "reward"), (1, 1, "x")], 3: [(1, 2, "reward")]}
    envs, _ = both(engine, mode, faults, None)
    with pytest.warns(RuntimeWarning) as caught:
        _, reward, *_ = envs.step(ZEROS)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    told = str(caught[0].message)
    assert "reward of env 2 is not finite: nan" in told
    assert "seed 9" in told
    assert "step 1 of its episode" in told
    assert "check_finite='error'" in told
    assert np.isnan(reward[2])
    with pytest.warns(RuntimeWarning, match="reward of env 3") as caught:
        envs.step(ZEROS)
    assert len(caught) == 1
    envs.step(ZEROS)
    envs.close()


@on_every_engine
def test_off_says_nothing(engine):
    envs, _ = both(engine, "next-step", {2: [(1, 1, "reward"), (1, 1, "x")]}, "off")
    assert np.isnan(envs.step(ZEROS)[1][2])
    envs.close()


@on_every_engine
def test_warn_tells_of_every_field_once(engine):
    faults = {2: [(1, 0, "half"), (1, 1, "half"), (1, 2, "x"), (1, 2, "reward")]}
    envs = twins.make(engine, sick(COUNT, faults, bad=-np.inf), check_finite="warn")
    with pytest.warns(RuntimeWarning, match=r"obs\.half of env 2 .*never seeded, step 0"):
        envs.reset()
    envs.step(ZEROS)
    with pytest.warns(RuntimeWarning) as caught:
        obs, *_ = envs.step(ZEROS)
    assert [str(warning.message).split()[0] for warning in caught] == ["reward", "obs.x"]
    assert np.isneginf(obs["x"][2, 1])
    envs.close()


@on_every_engine
def test_a_warning_that_is_an_error_loses_nothing(engine):
    envs, well = both(engine, "next-step", {2: [(1, 1, "reward")]}, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            envs.step(ZEROS)
    got = envs.recv()
    assert got.env_ids.tolist() == [0, 1, 2, 3]
    rows_equal(got.obs, well.step(ZEROS)[0], range(COUNT))
    rows_equal(envs.step(ZEROS)[0], well.step(ZEROS)[0], range(COUNT))
    envs.close()


# --- error ------------------------------------------------------------------------------------------------------------


@on_every_engine
@in_every_mode
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", ["reward", "x", "deep.0", "half"])
def test_an_error_names_what_is_bad_and_the_others_wait(engine, mode, place, bad):
    envs, well = both(engine, mode, {2: [(1, 3, place)]}, "error", bad=bad)
    for _ in range(2):
        envs.step(ZEROS)
        well.step(ZEROS)
    with pytest.raises(NotFiniteError) as caught:
        envs.step(ZEROS)
    error = caught.value
    assert isinstance(error, EnvError)
    assert isinstance(error, ValueError)
    name = place if place == "reward" else f"obs.{place}"
    assert (error.row, error.rows, error.name, error.step, error.seed) == (2, (2,), name, 3, 9)
    assert (error.phase, error.action) == ("step", 0)
    assert not np.isfinite(error.value).all()
    assert f"{name} of env 2 is not finite" in str(error)
    assert "reset it" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    expected = well.step(ZEROS)
    with pytest.raises(PendingError):
        envs.step(ZEROS)
    got = envs.recv()
    assert got.env_ids.tolist() == OTHERS
    for left, right in zip(leaves(got.obs), leaves(expected[0]), strict=True):
        np.testing.assert_array_equal(left, right[OTHERS])
    np.testing.assert_array_equal(got.reward, expected[1][OTHERS])
    assert got.infos["at"].tolist() == [3, 3, 3]
    assert not got.infos.get("_fault", np.zeros(3)).any()
    with pytest.raises(NotResetError):
        envs.step(ZEROS)
    obs, _ = envs.reset(options={"reset_mask": only(2)})
    assert obs["x"][2].tolist() == [2, 2, 0]
    rows_equal(envs.step(ZEROS)[0], well.step(ZEROS)[0], OTHERS)
    envs.close()


@on_every_engine
def test_every_bad_env_raises_and_then_the_rest_is_received(engine):
    envs, _ = both(engine, "same-step", {0: [(1, 1, "x")], 2: [(1, 1, "reward")], 3: [(1, 1, "half")]}, "error")
    with pytest.raises(NotFiniteError) as first:
        envs.step(ZEROS)
    with pytest.raises(NotFiniteError) as second:
        envs.recv()
    with pytest.raises(NotFiniteError) as third:
        envs.recv()
    assert [caught.value.row for caught in (first, second, third)] == [0, 2, 3]
    assert envs.recv().env_ids.tolist() == [1]
    envs.reset(seed=1)
    envs.close()


@on_every_engine
def test_a_full_reset_discards_what_waits(engine):
    envs, well = both(engine, "next-step", {1: [(1, 1, "x")], 2: [(1, 1, "x")]}, "error")
    with pytest.raises(NotFiniteError):
        envs.step(ZEROS)
    rows_equal(envs.reset(seed=3)[0]["deep"], well.reset(seed=3)[0]["deep"], range(COUNT))
    rows_equal(envs.step(ZEROS)[0]["deep"], well.step(ZEROS)[0]["deep"], range(COUNT))
    envs.close()


@on_every_engine
@in_every_mode
def test_a_bad_first_observation_is_an_error_of_the_reset(engine, mode):
    envs = twins.make(engine, sick(COUNT, {2: [(1, 0, "x")]}), autoreset=mode, check_finite="error")
    with pytest.raises(NotFiniteError) as caught:
        envs.reset(seed=7)
    assert (caught.value.row, caught.value.phase, caught.value.step) == (2, "reset", 0)
    assert envs.recv().env_ids.tolist() == OTHERS
    envs.reset(options={"reset_mask": only(2)})
    envs.step(ZEROS)
    envs.close()


@on_every_engine
@pytest.mark.parametrize("truncates", [False, True])
def test_a_bad_final_observation_and_a_bad_next_one_are_told_apart(engine, truncates):
    for faults, name, at in (([(1, LENGTH, "x")], "final_obs.x", LENGTH), ([(2, 0, "x")], "obs.x", 0)):
        envs, _ = both(engine, "same-step", {2: faults}, "error", truncates=truncates)
        for _ in range(LENGTH - 1):
            envs.step(ZEROS)
        with pytest.raises(NotFiniteError) as caught:
            envs.step(ZEROS)
        assert (caught.value.name, caught.value.step) == (name, at)
        assert envs.recv().rolled.all()
        envs.close()


@on_every_engine
@pytest.mark.parametrize("order", ["first-ready", "fixed"])
def test_parts_of_the_envs_raise_and_wait_as_well(engine, order):
    faults = {1: [(1, 1, "x")]}
    envs = twins.make(engine, sick(COUNT, faults), check_finite="error", batch_size=2, order=order)
    envs.reset(seed=7)
    envs.send([0, 0], [0, 1])
    with pytest.raises(NotFiniteError) as caught:
        envs.recv(2)
    assert caught.value.row == 1
    envs.send([0, 0], [2, 3])
    got = [envs.recv(1) for _ in range(3)]
    assert sorted(int(one.env_ids[0]) for one in got) == [0, 2, 3]
    for one in got:
        assert one.obs["x"].tolist() == [[one.env_ids[0], 1, 1]]
    envs.close()


# --- truncate ---------------------------------------------------------------------------------------------------------


@on_every_engine
@in_every_mode
@pytest.mark.parametrize("place", ["reward", "x", "deep.0"])
def test_truncate_ends_the_episode_and_goes_on(engine, mode, place):
    envs, well = both(engine, mode, {2: [(1, 2, place)]}, "truncate")
    before = envs.step(ZEROS)[0]
    well.step(ZEROS)
    obs, reward, terminated, truncated, infos = step(envs, mode)
    expected = step(well, mode)
    assert (reward[2], terminated[2], truncated[2]) == (0.0, False, True)
    final = infos["final_obs"][2] if mode == "same-step" else None
    if mode == "same-step":
        assert final["x"].tolist() == [2, 1, 1]
        assert final["deep"][0] == before["deep"][0][2]
        assert obs["x"][2].tolist() == [2, 2, 0]
        assert infos["final_info"]["at"][2] == 2
        assert infos["asked"][2] == 0
    else:
        rows_equal(obs, before, [2])
    fault = {key: value[2] for key, value in infos["fault"].items() if not key.startswith("_")}
    assert infos["_fault"].tolist() == only(2).tolist()
    assert (fault["kind"], fault["phase"], fault["env"], fault["restarts"]) == ("NotFiniteError", "step", 2, 0)
    assert fault["field"] == ("reward" if place == "reward" else f"obs.{place}")
    assert f"{fault['field']} of env 2 is not finite" in fault["message"]
    assert envs.episode_length[2] == 1
    assert envs.episode_return[2] == 3.5
    rows_equal(obs, expected[0], OTHERS)
    np.testing.assert_array_equal(reward[OTHERS], expected[1][OTHERS])
    for turn in range(2 * LENGTH):
        obs, reward, terminated, truncated, infos = step(envs, mode)
        expected = step(well, mode)
        rows_equal(obs, expected[0], OTHERS)
        np.testing.assert_array_equal(reward[OTHERS], expected[1][OTHERS])
        assert not truncated.any()
        assert "fault" not in infos
        begun = {"next-step": turn, "same-step": turn + 1, "disabled": turn + 1}[mode]
        if begun <= LENGTH:
            assert obs["x"][2].tolist() == ([2, 2, begun] if not (mode == "same-step" and terminated[2]) else [2, 3, 0])
            assert terminated[2] == (begun == LENGTH)
            assert envs.episode_length[2] == begun
            assert envs.episode_return[2] == sum(3 + 0.5 * k for k in range(1, begun + 1))
    envs.close()


@on_every_engine
@in_every_mode
def test_an_episode_that_is_cut_in_its_first_step_has_no_length(engine, mode):
    envs, _ = both(engine, mode, {2: [(2, 1, "x")]}, "truncate")
    for _ in range(LENGTH + (mode == "next-step")):
        step(envs, mode)
    assert step(envs, mode)[3].tolist() == only(2).tolist()
    assert envs.episode_length[2] == 0
    assert envs.episode_return[2] == 0
    envs.close()


@on_every_engine
@in_every_mode
def test_an_episode_that_ends_badly_is_truncated_at_its_last_good_observation(engine, mode):
    envs, _ = both(engine, mode, {2: [(1, LENGTH, "x"), (1, LENGTH, "reward")]}, "truncate")
    for _ in range(LENGTH - 1):
        envs.step(ZEROS)
    obs, reward, terminated, truncated, infos = envs.step(ZEROS)
    assert terminated.tolist() == [True, True, False, True]
    assert truncated.tolist() == only(2).tolist()
    assert reward[2] == 0
    last = infos["final_obs"][2]["x"] if mode == "same-step" else obs["x"][2]
    assert last.tolist() == [2, 1, LENGTH - 1]
    assert infos["fault"]["field"][2] == ("final_obs.x" if mode == "same-step" else "reward")
    if mode == "same-step":
        assert obs["x"][2].tolist() == [2, 2, 0]
    elif mode == "next-step":
        assert envs.step(ZEROS)[0]["x"][2].tolist() == [2, 2, 0]
    else:
        assert envs.reset(options={"reset_mask": np.ones(COUNT, bool)})[0]["x"][2].tolist() == [2, 2, 0]
    assert not envs.step(ZEROS)[3].any()
    envs.close()


@on_every_engine
def test_a_bad_first_observation_of_a_rolled_episode_is_replaced_and_what_ended_stays(engine):
    envs, well = both(engine, "same-step", {2: [(2, 0, "x")]}, "truncate")
    for _ in range(LENGTH - 1):
        envs.step(ZEROS)
        well.step(ZEROS)
    obs, reward, terminated, truncated, infos = envs.step(ZEROS)
    expected = well.step(ZEROS)
    np.testing.assert_array_equal(reward, expected[1])
    assert terminated.all()
    assert not truncated.any()
    assert infos["final_obs"][2]["x"].tolist() == [2, 1, LENGTH]
    assert infos["final_obs"][2]["deep"] == expected[4]["final_obs"][2]["deep"]
    assert infos["final_info"]["at"].tolist() == [LENGTH] * COUNT
    assert obs["x"][2].tolist() == [2, 3, 0]
    assert (infos["fault"]["phase"][2], infos["fault"]["field"][2]) == ("reset", "obs.x")
    assert envs.episode_length.tolist() == [LENGTH] * COUNT
    obs, _, terminated, truncated, _ = envs.step(ZEROS)
    assert obs["x"][2].tolist() == [2, 3, 1]
    assert not (terminated | truncated).any()
    assert envs.episode_length.tolist() == [1] * COUNT
    envs.close()


@on_every_engine
@in_every_mode
def test_a_bad_first_observation_is_replaced_by_that_of_another_episode_with_the_same_options(engine, mode):
    faults = {2: [(1, 0, "x"), (2, 0, "half")]}
    envs = twins.make(engine, sick(COUNT, faults), autoreset=mode, check_finite="truncate")
    obs, infos = envs.reset(seed=7, options=[{"asked": row} for row in range(COUNT)])
    assert obs["x"][:, 1].tolist() == [1, 1, 3, 1]
    assert infos["asked"].tolist() == [0, 1, 2, 3]
    assert infos["_fault"].tolist() == only(2).tolist()
    assert infos["fault"]["phase"][2] == "reset"
    _, _, terminated, truncated, infos = envs.step(ZEROS)
    assert not (terminated | truncated).any()
    assert "fault" not in infos
    envs.close()


@on_every_engine
def test_an_env_that_never_begins_well_is_an_error_in_the_end(engine):
    faults = {2: [(episode, 0, "x") for episode in range(1, 9)]}
    envs = twins.make(engine, sick(COUNT, faults), check_finite="truncate")
    with pytest.raises(NotFiniteError, match="reset 3 times in a row") as caught:
        envs.reset(seed=1)
    assert caught.value.row == 2
    assert envs.recv().env_ids.tolist() == OTHERS
    with pytest.raises(NotFiniteError):  # its fifth episode, and three more
        envs.reset(options={"reset_mask": only(2)})
    envs.reset(options={"reset_mask": only(2)})
    envs.step(ZEROS)
    envs.close()


@on_every_engine
def test_an_env_that_never_begins_well_does_not_disturb_one_that_is_truncated(engine):
    faults = {2: [(1, LENGTH, "x"), *((episode, 0, "x") for episode in range(2, 9))], 3: [(1, LENGTH - 1, "reward")]}
    envs, _ = both(engine, "same-step", faults, "truncate")
    for _ in range(LENGTH - 2):
        envs.step(ZEROS)
    assert envs.step(ZEROS)[3].tolist() == only(3).tolist()
    with pytest.raises(NotFiniteError) as caught:
        envs.step(ZEROS)
    assert caught.value.row == 2
    got = envs.recv()
    assert got.env_ids.tolist() == [0, 1, 3]
    assert got.obs["x"].tolist() == [[0, 2, 0], [1, 2, 0], [3, 2, 1]]
    assert got.episode_length.tolist() == [LENGTH, LENGTH, 1]
    envs.close()


@on_every_engine
def test_what_an_interrupt_left_undone_is_done_by_the_next_recv(engine, monkeypatch):
    envs, _ = both(engine, "same-step", {1: [(1, 1, "reward")], 2: [(1, 1, "x")]}, "truncate")
    begin = FiniteCheck._begin_again

    def interrupted(self, finding, *rest):
        if finding.row == 2:
            monkeypatch.setattr(FiniteCheck, "_begin_again", begin)
            raise KeyboardInterrupt
        begin(self, finding, *rest)

    monkeypatch.setattr(FiniteCheck, "_begin_again", interrupted)
    with pytest.raises(KeyboardInterrupt):
        envs.step(ZEROS)
    got = envs.recv()
    assert got.env_ids.tolist() == [0, 1, 2, 3]
    assert got.truncated.tolist() == [False, True, True, False]
    assert got.obs["x"].tolist() == [[0, 1, 1], [1, 2, 0], [2, 2, 0], [3, 1, 1]]
    assert got.next_obs["x"][:, 1:].tolist() == [[1, 1], [1, 0], [1, 0], [1, 1]]
    assert got.infos["fault"]["env"].tolist() == [0, 1, 2, 0]
    obs, _, _, truncated, _ = envs.step(ZEROS)
    assert obs["x"].tolist() == [[0, 1, 2], [1, 2, 1], [2, 2, 1], [3, 1, 2]]
    assert not truncated.any()
    envs.close()


@on_every_engine
@pytest.mark.parametrize("order", ["first-ready", "fixed"])
def test_parts_of_the_envs_are_truncated_as_well(engine, order):
    faults = {1: [(1, 1, "reward")]}
    envs = twins.make(
        engine, sick(COUNT, faults), check_finite="truncate", autoreset="same-step", batch_size=1, order=order
    )
    envs.reset(seed=7)
    envs.send(ZEROS)
    got = {int(one.env_ids[0]): one for one in (envs.recv() for _ in range(COUNT))}
    assert sorted(got) == [0, 1, 2, 3]
    for row, one in got.items():
        assert one.truncated.tolist() == [row == 1]
        assert one.next_obs["x"].tolist() == [[row, 1, 0 if row == 1 else 1]]
        assert one.obs["x"].tolist() == ([[1, 2, 0]] if row == 1 else [[row, 1, 1]])
        assert ("fault" in one.infos) == (row == 1)
    envs.send([0], [1])
    one = envs.recv()
    assert one.obs["x"].tolist() == [[1, 2, 1]]
    assert one.episode_length.tolist() == [1]
    envs.close()


def test_what_cannot_be_sent_changes_nothing_about_a_truncated_env():
    envs, _ = both("process", "next-step", {2: [(1, 1, "x")]}, "truncate")
    envs.step(ZEROS)
    with pytest.raises(vecenv.errors.SpaceError, match="cannot be sent"):
        envs.reset(options={"asked": threading.Lock()})
    obs, _, _, truncated, _ = envs.step(ZEROS)
    assert obs["x"][2].tolist() == [2, 2, 0]
    assert not truncated.any()
    envs.close()


@on_every_engine
def test_wrappers_see_the_same(engine):
    envs, _ = both(engine, "same-step", {2: [(1, 2, "x")]}, "truncate")
    outer = RecordEpisodeStatistics(NormalizeObservation(envs, keys=["x"]))
    outer.reset(seed=7)  # the second episode of each env
    faults = []
    for _ in range(6):
        obs, reward, *_, infos = outer.step(ZEROS)
        faults.append(bool("fault" in infos))
        assert all(np.isfinite(leaf).all() for leaf in leaves(obs))
        assert np.isfinite(reward).all()
    assert not any(faults)
    assert np.isfinite(outer.env.obs_rms["x"].mean).all()
    outer.close()


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 3, "caller_works": True}, {"on_error": "restart"}])
def test_random_faults_are_truncated_alike_on_every_engine(mode, options):
    rng = np.random.default_rng(3)
    places = ["reward", "x", "half", "deep.0"]
    faults = {
        row: [(int(rng.integers(1, 12)), int(rng.integers(0, LENGTH + 1)), str(rng.choice(places))) for _ in range(9)]
        for row in range(6)
    }
    engines = ["sync", "process"] if len(options) > 1 or "workers" not in options else ["sync", "thread", "process"]
    ours = [
        twins.make(
            engine, sick(6, faults), autoreset=mode, check_finite="truncate", **({} if engine == "sync" else options)
        )
        for engine in engines
    ]
    seen = [envs.reset(seed=5) for envs in ours]
    faulty = 0
    for _ in range(60):
        rows = np.sort(rng.permutation(6)[: rng.integers(1, 7)])
        seen = [envs.step(np.zeros(len(rows), int), env_ids=rows) for envs in ours]
        for results in seen:
            twins.assert_same(results, seen[0])
            assert np.isfinite(results[1]).all()
            assert all(np.isfinite(leaf).all() for leaf in leaves(results[0]))
        faulty += "fault" in seen[0][4]
        totals = [(envs.episode_return.tolist(), envs.episode_length.tolist()) for envs in ours]
        assert all(total == totals[0] for total in totals)
    assert faulty > 5
    for envs in ours:
        envs.close()


# --- apart, and nothing to look at ------------------------------------------------------------------------------------


def test_observations_and_rewards_have_policies_of_their_own():
    faults = {1: [(1, 1, "reward")], 2: [(1, 2, "x")]}
    envs, _ = both("sync", "next-step", faults, {"obs": "truncate", "reward": "off"})
    assert np.isnan(envs.step(ZEROS)[1][1])
    assert envs.step(ZEROS)[3].tolist() == only(2).tolist()
    envs, _ = both("sync", "next-step", faults, {"obs": "error"})
    with pytest.warns(RuntimeWarning, match="reward of env 1"):
        envs.step(ZEROS)
    with pytest.raises(NotFiniteError, match=r"obs\.x of env 2"):
        envs.step(ZEROS)


def test_a_reward_of_a_truncated_row_is_not_warned_of():
    envs, _ = both("sync", "next-step", {2: [(1, 1, "x"), (1, 1, "reward")]}, {"obs": "truncate", "reward": "warn"})
    assert envs.step(ZEROS)[1][2] == 0


def test_large_numbers_are_finite():
    class Large(gymnasium.Env):
        observation_space = spaces.Tuple(spaces.Box(-np.inf, np.inf, (9,), dt) for dt in (np.float16, np.float64))
        action_space = spaces.Discrete(2)
        largest = tuple(np.full(9, np.finfo(dt).max, dt) for dt in (np.float16, np.float64))

        def reset(self, *, seed=None, options=None):
            return self.largest, {}

        def step(self, action):
            return self.largest, -np.finfo(float).max, False, False, {}

    envs = vecenv.make(Large, 5, engine="sync", check_finite="error")
    envs.reset()
    envs.step(np.zeros(5, int))


def test_values_without_a_fixed_size_are_looked_into():
    class Loose(gymnasium.Env):
        observation_space = spaces.Dict(
            {"s": spaces.Sequence(spaces.Box(-1, 1, (2,))), "g": spaces.Graph(spaces.Box(-1, 1, (1,)), None)}
        )
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return self.obs(0.0), {}

        def step(self, action):
            return self.obs(np.nan if action else 0.0), 0.0, False, False, {}

        def obs(self, value):
            node = spaces.GraphInstance(np.full((1, 1), value, np.float32), None, None)
            return {"s": (np.zeros(2, np.float32),), "g": node}

    envs = vecenv.make(Loose, 3, engine="sync", check_finite="error")
    envs.reset()
    envs.step([0, 0, 0])
    with pytest.raises(NotFiniteError, match=r"obs\.g of env 1"):
        envs.step([0, 1, 0])


def test_integers_are_never_looked_at():
    envs = vecenv.make("FrozenLake-v1", 3, engine="sync", check_finite={"obs": "error", "reward": "off"})
    assert envs._decorated is envs.engine
    envs = vecenv.make([Sick] * 2, engine="sync", check_finite="error")
    paths = [envs._batch.observation_layout.leaves[k].path for k in envs._decorated._finder.floats]
    assert paths == ["deep.0", "half", "x"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("errors", "did you mean 'error'"),
        (True, "must be one of 'error', 'truncate', 'warn', 'off'"),
        ({"observations": "error"}, "the key 'observations'; there are 'obs' and 'reward'"),
        ({"obs": "raise"}, "must be one of"),
        (["obs"], "a mapping of 'obs' and 'reward'"),
    ],
)
def test_what_is_no_policy_is_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        vecenv.make("CartPole-v1", 2, check_finite=given)


# --- kernels ----------------------------------------------------------------------------------------------------------


@in_every_mode
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("reward", [True, False])
def test_kernels_are_truncated(mode, copy, reward):
    envs = kernels(COUNT, 2, 1, 2, reward, autoreset=mode, copy=copy, check_finite="truncate")
    well = kernels(COUNT, 2, 0, 0, reward, autoreset=mode)
    for one in (envs, well):
        one.reset(seed=1)
        one.step(ZEROS)
    obs, rewards, terminated, truncated, infos = step(envs, mode)
    expected = step(well, mode)
    assert (rewards[2], terminated[2], truncated[2]) == (0.0, False, True)
    assert infos["fault"]["field"][2] == ("reward" if reward else "obs")
    if mode == "same-step":
        assert infos["final_obs"][2].tolist() == [2, 1, 1]
        assert infos["final_info"]["steps"][2] == 2
        assert obs[2].tolist() == [2, 2, 0]
    else:
        assert obs[2].tolist() == [2, 1, 1]
    assert envs.episode_length[2] == 1
    rows_equal(obs, expected[0], OTHERS)
    for begun in range(mode != "next-step", LENGTH + 1):
        obs, _, terminated, truncated, infos = step(envs, mode)
        rows_equal(obs, step(well, mode)[0], OTHERS)
        assert not truncated.any()
        assert terminated[2] == (begun == LENGTH)
        assert envs.episode_length[2] == begun
        assert obs[2].tolist() == ([2, 3, 0] if terminated[2] and mode == "same-step" else [2, 2, begun])
        assert "fault" not in infos
    envs.close()


@in_every_mode
@pytest.mark.parametrize("subset", [False, True])
def test_kernels_raise_and_the_others_wait(mode, subset):
    envs = kernels(COUNT, 2, 1, 2, False, bad=-np.inf, autoreset=mode, check_finite="error")
    envs.reset(seed=[5, 6, 7, 8])
    envs.step(ZEROS)
    with pytest.raises(NotFiniteError, match=r"obs of env 2 .* seed 7, step 2"):
        envs.step(ZEROS, env_ids=range(COUNT) if subset else None)
    with pytest.raises(PendingError):
        envs.step(ZEROS)
    got = envs.recv()
    assert got.env_ids.tolist() == OTHERS
    assert got.obs.tolist() == [[row, 1, 2] for row in OTHERS]
    assert got.valid.all()
    envs.reset(options={"reset_mask": only(2)})
    assert envs.step(ZEROS)[0].tolist() == [[0, 1, 3], [1, 1, 3], [2, 2, 1], [3, 1, 3]]
    envs.close()


def test_kernels_warn_in_exchanges_of_wrappers_too():
    envs = RecordEpisodeStatistics(kernels(COUNT, 2, 1, 2, True, autoreset="same-step"))
    envs.reset(seed=1)
    envs.step(ZEROS)
    with pytest.warns(RuntimeWarning, match="reward of env 2") as caught:
        envs.step(ZEROS)
    assert caught[0].filename == __file__


def test_a_state_that_is_set_replaces_a_truncated_one():
    envs = kernels(COUNT, 2, 1, 2, True, autoreset="same-step", check_finite="truncate")
    envs.reset(seed=1)
    envs.step(ZEROS)
    state = envs.get_state([0])
    envs.step(ZEROS)
    envs.set_state(state, [2])
    obs, _, _, truncated, _ = envs.step(ZEROS)
    assert not truncated.any()
    assert obs[2].tolist() == [0, 1, 2]
    assert envs.episode_length[2] == 2
    assert envs.episode_return[2] == 1.5 + 2.0


def test_a_copy_of_a_vector_env_of_a_kernel_has_its_policy():
    envs = pickle.loads(pickle.dumps(vecenv.make("CartPole-v1", 2, engine="compiled", check_finite="error")))
    assert (envs._decorated.policies.obs, envs._decorated.policies.reward) == ("error", "error")


def test_invalid_actions_change_nothing_about_a_truncated_kernel():
    envs = kernels(COUNT, 2, 1, 1, True, check_finite="truncate")
    envs.reset(seed=1)
    envs.step(ZEROS)
    with pytest.raises(vecenv.errors.InvalidAction):
        envs.step(np.full(COUNT, 9))
    got = RecordEpisodeStatistics(envs)._exchange_step(ZEROS, None)
    assert got.valid.tolist() == (~only(2)).tolist()
    assert got.obs[2].tolist() == [2, 2, 0]


@pytest.mark.parametrize(("reward", "name"), [(True, "reward"), (False, "obs")])
def test_rollouts_are_looked_at_as_a_whole(reward, name):
    actions = np.zeros((3, COUNT), int)
    envs = kernels(COUNT, 2, 1, 2, reward, check_finite="error")
    envs.reset(seed=1)
    with pytest.raises(NotFiniteError, match=f"{name} of env 2 .* step 1 of the rollout") as caught:
        envs.rollout(actions)
    assert caught.value.rows == (2,)
    with pytest.raises(NotResetError):
        envs.step(ZEROS)
    obs, _ = envs.reset(options={"reset_mask": only(2)})
    assert obs.tolist() == [[0, 1, 3], [1, 1, 3], [2, 2, 0], [3, 1, 3]]
    envs = kernels(COUNT, 2, 1, 2, reward, check_finite="warn")
    envs.reset(seed=1)
    with pytest.warns(RuntimeWarning, match=f"{name} of env 2"):
        envs.rollout(actions)
    envs = kernels(COUNT, 2, 1, 2, reward, check_finite="truncate")
    envs.reset(seed=1)
    with pytest.raises(ConfigError, match="cannot end an episode"):
        envs.rollout(actions)


# --- other engines and faces ------------------------------------------------------------------------------------------


@pytest.mark.timeout(180)
def test_mujoco_tasks_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights = [{"forward_reward_weight": 1.0}, {"forward_reward_weight": float("inf")}, {}]
    envs = vecenv.make("HalfCheetah-v5", 3, engine="mujoco", env_kwargs=weights, check_finite="truncate")
    envs.reset(seed=1)
    _, reward, terminated, truncated, infos = envs.step(np.zeros((3, 6), np.float32))
    assert truncated.tolist() == [False, True, False]
    assert not terminated.any()
    assert reward[1] == 0
    assert infos["fault"]["env"][1] == 1
    assert envs.step(np.zeros((3, 6), np.float32))[3].tolist() == [False] * 3
    envs.close()


def test_games_take_a_policy():
    envs = vecenv.make("ALE/Pong-v5", 2, engine="ale", preprocessing=True, check_finite="error")
    assert envs._decorated.policies.reward == "error"
    assert envs._decorated._finder.floats == []  # screens are integers
    envs.reset(seed=1)
    envs.step(np.zeros(2, int))
    envs.close()


def test_faces_of_systems_that_check_nothing_check_nothing_unless_asked():
    from vecenv import baselines, gym, sb3
    from vecenv.gymnasium import AsyncVectorEnv, SyncVectorEnv, make_vec

    class Plain(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (1,))
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), float("nan"), False, False, {}

    factories = [Plain] * 2
    makers = [
        lambda **more: SyncVectorEnv(factories, **more),
        lambda **more: AsyncVectorEnv(factories, context="fork", **more),
        lambda **more: gym.SyncVectorEnv(factories, **more),
        lambda **more: gym.AsyncVectorEnv(factories, context="fork", **more),
        lambda **more: baselines.DummyVecEnv(factories, **more),
        lambda **more: baselines.SubprocVecEnv(factories, context="fork", **more),
        lambda **more: baselines.ShmemVecEnv(factories, context="fork", **more),
        lambda **more: sb3.SubprocVecEnv(factories, start_method="fork", **more),
    ]
    for make in makers:
        envs = make()
        envs.reset()
        assert np.isnan(envs.step(np.zeros(2, int))[1]).all()
        envs.close()
        envs = make(check_finite="error")
        envs.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's async envs log errors as warnings
            with pytest.raises(NotFiniteError):
                envs.step(np.zeros(2, int))
        envs.close()
    envs = make_vec("CartPole-v1", 2, "sync", vector_kwargs={"check_finite": "error"})
    assert envs._decorated.policies.obs == "error"
    envs.close()


def test_the_check_itself_needs_no_front():
    engine = vecenv.make([Sick] * 2, engine="sync").engine
    assert not FiniteCheck(engine, "off", rolls=False).on


class _RaisesOnce(gymnasium.Env):
    """Its second step raises, or has a reward that is no number."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, raises):
        self.raises, self.steps = raises, 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 2 and self.raises:
            raise RuntimeError("on purpose")
        return np.zeros(2, np.float32), np.nan if self.steps == 2 else 1.0, False, False, {}


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_a_bad_reward_beside_envs_that_are_built_again_is_seen(failing):
    fns = [partial(_RaisesOnce, row < failing) for row in range(4)]
    with vecenv.make(fns, engine="sync", on_error="restart", check_finite={"reward": "error"}) as envs:
        envs.reset()
        envs.step(np.zeros(4, np.int64))  # whose rewards are all finite
        with pytest.raises(NotFiniteError, match="reward"):
            envs.step(np.zeros(4, np.int64))
