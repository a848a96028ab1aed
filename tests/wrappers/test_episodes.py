"""Episodes are counted, in every mode and in parts, and written as SB3 writes them."""

import json
import time

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.wrappers.driving import drive, in_every_case, make
from vecenv.errors import ConfigError, MissingExtra
from vecenv.wrappers import RecordEpisodeStatistics, RecordResults, TransformReward, load_results
from vecenv.wrappers._results_file import ResultsFile


class FiveSteps(gymnasium.Env):
    """Episodes of five steps with reward 1. Fails where `faults` says: by number of the object, a step or "reset"."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, faults, made, info=None):
        made.append(self)
        self.fault, self.info, self.time = faults.get(len(made)), info or {}, 0

    def reset(self, *, seed=None, options=None):
        if self.fault == "reset":
            raise ValueError("cannot begin")
        self.time = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.time += 1
        if self.time == self.fault:
            raise ValueError("cannot step")
        return np.zeros(3, np.float32), 1.0, self.time >= 5, False, self.info


@pytest.mark.parametrize("engine", ["sync", "thread", "asyncio"])
@pytest.mark.parametrize("mode", ["next-step", "same-step"])
@pytest.mark.parametrize("faults", [{1: 3}, {1: 3, 2: "reset"}])
def test_episodes_that_a_fault_ended_are_in_no_queue_even_if_the_next_one_failed_to_begin(engine, mode, faults):
    made = []
    with make(engine, lambda: FiveSteps(faults, made), 1, autoreset=mode, on_error="restart") as envs:
        wrapped = RecordEpisodeStatistics(envs)
        wrapped.reset(seed=0)
        for _ in range(9):
            wrapped.step(np.zeros(1, np.int64))
        assert (wrapped.episode_count, wrapped.skipped, list(wrapped.return_queue)) == (2, 1, [5.0])


@pytest.mark.parametrize("info", [1.0, "motor hot", {"code": 3}, {"ended": 1.0}, {"kind": "friction"}])
def test_an_info_fault_of_the_envs_own_means_nothing_to_statistics_and_evaluation(info):
    def build():
        return FiveSteps({}, [], {"fault": info})

    with make("sync", build, 2) as envs:
        wrapped = RecordEpisodeStatistics(envs)
        wrapped.reset(seed=0)
        for _ in range(5):
            wrapped.step(np.zeros(2, np.int64))
        assert (wrapped.skipped, list(wrapped.return_queue)) == (0, [5.0, 5.0])
    result = vecenv.evaluate(lambda obs: np.zeros(len(obs), np.int64), build, episodes=3, engine="sync")
    assert result.returns.tolist() == [5.0, 5.0, 5.0]


@in_every_case
def test_statistics_are_those_of_wrapped_single_envs(engine, mode, way):
    inner = gymnasium.wrappers.RecordEpisodeStatistics
    with make("sync", "CartPole-v1", autoreset=mode, wrappers=[inner]) as oracle:
        expected = drive(oracle, way, steps=90)
    with make(engine, "CartPole-v1", autoreset=mode) as envs:
        wrapped = RecordEpisodeStatistics(envs)
        results = drive(wrapped, way, steps=90)
        count = 0
        assert len(results) == len(expected)
        for result, wanted in zip(results, expected, strict=True):
            done = result[2] | result[3] if len(result) == 5 else np.zeros(3, np.bool_)
            assert ("episode" in result[-1]) == done.any()
            if done.any():
                infos, theirs = result[-1], wanted[-1]
                expected = theirs["final_info"]["episode"] if mode == "same-step" else theirs["episode"]
                np.testing.assert_array_equal(infos["_episode"], done)
                for key in "rl":
                    np.testing.assert_array_equal(infos["episode"][key], np.where(done, expected[key], 0))
                assert (infos["episode"]["t"][done] > 0).all()
                assert not infos["episode"]["t"][~done].any()
                count += done.sum()
        assert wrapped.episode_count == count > 2
        assert len(wrapped.return_queue) == len(wrapped.length_queue) == len(wrapped.time_queue) == count


def test_next_step_statistics_are_gymnasium_s():
    theirs = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync"), buffer_length=5
    )
    rng = np.random.default_rng(0)
    with make("compiled", "CartPole-v1") as envs:
        ours = RecordEpisodeStatistics(envs, buffer_length=5)
        ours.reset(seed=1), theirs.reset(seed=1)
        for _ in range(200):
            actions = rng.integers(0, 2, 3)
            infos, expected = ours.step(actions)[-1], theirs.step(actions)[-1]
            assert infos.keys() == expected.keys()
            for key in "rl" if infos else "":
                np.testing.assert_array_equal(infos["episode"][key], expected["episode"][key])
        assert list(ours.return_queue) == list(theirs.return_queue)
        assert list(ours.length_queue) == list(theirs.length_queue)
        assert ours.episode_count == theirs.episode_count
    theirs.close()


def test_rewards_are_those_inside():
    with make("compiled", "CartPole-v1", autoreset="same-step") as envs:
        wrapped = RecordEpisodeStatistics(TransformReward(envs, lambda reward: reward * 2))
        drive(wrapped, steps=80)
        assert list(wrapped.return_queue) == [2.0 * length for length in wrapped.length_queue]


def test_two_of_them_need_two_keys():
    with make("compiled", "CartPole-v1") as envs:
        named = RecordEpisodeStatistics(RecordEpisodeStatistics(envs), stats_key="outer")
        drive(named)
        with pytest.raises(ConfigError, match="stats_key"):
            drive(RecordEpisodeStatistics(RecordEpisodeStatistics(envs)))


def test_statistics_go_on_where_they_were():
    with make("compiled", "CartPole-v1") as envs, make("compiled", "CartPole-v1") as others:
        one, other = RecordEpisodeStatistics(envs), RecordEpisodeStatistics(others)
        drive(one)
        other.load_state_dict(one.state_dict())
        assert other.episode_count == one.episode_count
        assert other.return_queue == one.return_queue
        assert other.return_queue.maxlen == 100
        np.testing.assert_array_equal(other.episode_lengths, one.episode_lengths)


# --- files ------------------------------------------------------------------------------------------------------------

ROWS = [
    {"r": 1.5, "l": 3, "t": 0.25, "won": True, "who": 'a "b", c'},
    {"r": -2.000001, "l": 12, "t": 1.0, "won": False, "who": "ä"},
    {"r": 0.0, "l": 0, "t": 12345.678901, "won": np.float32(0.5), "who": None},
]


def monitor():
    pytest.importorskip("pandas")
    return pytest.importorskip("stable_baselines3.common.monitor")


@pytest.mark.parametrize("name", ["log", "x.monitor.csv", "deep/er/monitor.csv", ".", "7"])
def test_files_are_sb3_s_byte_for_byte(tmp_path, name):
    ResultsWriter = monitor().ResultsWriter

    files = {}
    for who in ("ours", "theirs"):
        (tmp_path / who).mkdir()
        path, header, extra = str(tmp_path / who / name), {"t_start": 1.25, "env_id": "CartPole-v1"}, ("won", "who")
        for append in (False, True):
            if who == "ours":
                writer = ResultsFile(path, header, extra, append=append)
                write = writer.write
            else:
                writer = ResultsWriter(path, header, extra, override_existing=not append)
                write = writer.write_row
            for row in ROWS:
                write(row)
            files[who, append] = {
                str(file.relative_to(tmp_path / who)): file.read_bytes()  # before it is closed
                for file in (tmp_path / who).rglob("*csv")
            }
            writer.close()
            writer.close()
    for append in (False, True):
        assert files["ours", append] == files["theirs", append]
        assert len(files["ours", append]) == 1


def test_episodes_are_rows_that_sb3_reads(tmp_path):
    theirs = monitor().load_results
    started = time.time()
    with make("compiled", "CartPole-v1", autoreset="same-step") as envs:
        wrapped = RecordEpisodeStatistics(RecordResults(envs, tmp_path / "a"))
        drive(wrapped, steps=100)
        assert wrapped.env.path == tmp_path / "a.monitor.csv"
        wrapped.close()
    first = json.loads((tmp_path / "a.monitor.csv").read_text().splitlines()[0][1:])
    assert started <= first["t_start"] <= time.time()
    frame = theirs(str(tmp_path))
    assert frame["r"].tolist() == list(wrapped.return_queue)
    assert frame["l"].tolist() == list(wrapped.length_queue)
    assert (frame["t"] >= 0).all()
    assert load_results(tmp_path).equals(frame)


@pytest.mark.parametrize("mode", ["next-step", "same-step", "disabled"])
def test_info_keywords_are_of_the_step_that_ended_the_episode(tmp_path, mode):
    with make("sync", Telling, 2, autoreset=mode) as envs:
        drive(RecordResults(envs, tmp_path / "a", info_keywords=("told",)), steps=12)
    rows = (tmp_path / "a.monitor.csv").read_text().splitlines()[1:]
    assert rows[0] == "r,l,t,told"
    assert len(rows) > 3
    assert {row.split(",")[3] for row in rows[1:]} == {"4"}


def test_a_keyword_that_no_info_has_is_named(tmp_path):
    with make("compiled", "CartPole-v1") as envs, pytest.raises(ConfigError, match="'nothing'"):
        drive(RecordResults(envs, tmp_path / "a", info_keywords=("nothing",)))


def test_loading_several_files_is_sb3_s(tmp_path):
    theirs = monitor().load_results
    for name, start in (("1", 50.0), ("0", 10.5), ("2", 70.0)):
        file = ResultsFile(tmp_path / name, {"t_start": start, "env_id": "x"})
        for row in range(0 if name == "2" else 3):
            file.write({"r": row, "l": row, "t": row * 20.0})
        file.close()
    assert load_results(tmp_path).equals(theirs(str(tmp_path)))


def test_loading_nothing_is_said(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    with pytest.raises(ConfigError, match=r"monitor\.csv"):
        load_results(tmp_path)
    ResultsFile(tmp_path / "empty", {"t_start": 0}).close()
    assert len(load_results(tmp_path)) == 0
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtra, match="pandas"):
        load_results(tmp_path)


class Telling(gymnasium.Env):
    """Tells how many steps its episode has; it has four."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {"told": 0}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == 4, False, {"told": self.steps}
