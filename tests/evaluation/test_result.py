"""The table says what the episodes say, in every form."""

import csv
import json

import numpy as np
import pytest
from scipy import stats

import vecenv
from tests.evaluation.worlds import Counted, Drift, lean
from vecenv import scenarios
from vecenv.errors import ConfigError
from vecenv.evaluation import bootstrap


@pytest.fixture(scope="module")
def result():
    cases = {"train": scenarios.uniform(speed=(0.1, 0.3)), "test": scenarios.grid(speed=[0.05, 0.6])}
    return vecenv.evaluate(lean, Drift, episodes=8, seeds=[3, 5], scenarios=cases, resamples=200)


def test_rows_are_statistics_of_their_episodes(result):
    assert [(row.group, row.scenario, row.seed) for row in result.table] == [
        (group, name, seed)
        for group, name in (("train", "speed=0.1...0.3"), ("test", "speed=0.05"), ("test", "speed=0.6"))
        for seed in (3, 5, None)
    ]
    for row in result.table:
        which = (np.array(result.scenarios) == row.scenario) & ((result.seeds == row.seed) | (row.seed is None))
        returns, lengths = result.returns[which], result.lengths[which]
        assert row.episodes == len(returns) == (16 if row.seed is None else 8)
        assert row.mean == returns.mean()
        assert row.median == np.median(returns)
        assert row.iqm == pytest.approx(stats.trim_mean(returns, 0.25), rel=1e-14)
        assert row.std == returns.std(ddof=1)
        assert (row.length, row.shortest, row.longest) == (lengths.mean(), lengths.min(), lengths.max())
        assert row.terminated == result.terminated[which].mean()
        assert row.iqm_low <= row.iqm <= row.iqm_high
        assert (row.mean_low, row.mean_high) == bootstrap((returns,), lambda drawn: drawn.mean(-1), resamples=200)


def test_the_gap_is_train_minus_test(result):
    groups = np.array(result.groups)
    gap = result.gap()
    assert gap.train == result.returns[groups == "train"].mean()
    assert gap.test == result.returns[groups == "test"].mean()
    assert gap.difference == gap.train - gap.test
    assert gap.low < gap.difference < gap.high
    assert result.gap("test", "train").difference == -gap.difference
    with pytest.raises(ConfigError, match="no group of scenarios 'moon'"):
        result.gap("moon")


def test_csv_holds_the_table_and_the_episodes(result, tmp_path):
    result.to_csv(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["iqm"]) for row in rows] == [row.iqm for row in result.table]
    assert [row["seed"] for row in rows] == ["3", "5", ""] * 3
    result.episodes_to_csv(tmp_path / "episodes.csv")
    with (tmp_path / "episodes.csv").open() as file:
        episodes = list(csv.DictReader(file))
    assert [float(row["return"]) for row in episodes] == result.returns.tolist()
    assert [float(row["speed"]) for row in episodes] == [values["speed"] for values in result.parameters]


def test_returns_that_are_no_numbers_are_null_in_json():
    class Nan(Counted):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, float("nan"), *rest

    content = json.loads(vecenv.evaluate(lean, Nan, episodes=3, check_finite="off").to_json())
    assert [episode["return"] for episode in content["episodes"]] == [None] * 3
    assert content["table"][0]["iqm"] is None


def test_json_holds_everything(result, tmp_path):
    text = result.to_json(tmp_path / "result.json")
    content = json.loads((tmp_path / "result.json").read_text())
    assert content == json.loads(text)
    assert content["gap"]["difference"] == result.gap().difference
    assert [row["mean"] for row in content["table"]] == [row.mean for row in result.table]
    assert [episode["return"] for episode in content["episodes"]] == result.returns.tolist()
    assert content["episodes"][0]["parameters"] == result.parameters[0]


def test_text_and_rich_tables_show_every_row(result):
    lines = str(result).splitlines()
    assert lines[0] == "vecenv/Drift-v0, 48 episodes"
    assert len(lines) == 3 + 9 + 1
    assert lines[-1].startswith("generalisation gap: ")
    import rich.console as rich_console

    console = rich_console.Console(width=80)
    with console.capture() as capture:
        console.print(result)
    shown = capture.get()
    assert all(row.scenario in shown for row in result.table)


def test_a_plot_is_a_picture(result, tmp_path):
    result.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_one_episode_of_the_env_as_it_is_has_a_table_too():
    result = vecenv.evaluate(lean, Drift, episodes=1)
    (row,) = result.table
    assert (row.scenario, row.seed, row.episodes) == ("default", None, 1)
    assert row.mean == row.iqm == row.iqm_low == row.mean_high == result.mean
    assert "gap" not in str(result)
