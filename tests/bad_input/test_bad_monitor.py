"""Files of episodes that have two writers, that hold formulas, or whose disk is full."""

from __future__ import annotations

import contextlib
import csv
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.full_disk import full_disk
from tests.test_bad_input import refused
from tests.twins import make
from vecenv.errors import ConfigError, FileInUse
from vecenv.sb3 import DummyVecEnv, VecMonitor
from vecenv.sb3.monitor import Monitor
from vecenv.wrappers import RecordResults, load_results
from vecenv.wrappers._results_file import ResultsFile


class Word(gymnasium.Env[Any, Any]):
    """Every step is an episode, whose info has a word."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, word: str = "plain") -> None:
        self.word = word

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), -1.5, True, False, {"word": self.word}


WRITERS = {
    "ResultsFile": lambda path: ResultsFile(path),
    "RecordResults": lambda path: RecordResults(make("sync", Word, 1), path),
    "Monitor": lambda path: Monitor(Word(), str(path)),
    "VecMonitor": lambda path: VecMonitor(DummyVecEnv([Word]), str(path)),
}


# --- 80: two writers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", WRITERS)
@pytest.mark.parametrize("second", WRITERS)
def test_the_error_of_a_second_writer_names_the_first_and_the_file_is_as_it_was(
    first: str, second: str, tmp_path: Path
) -> None:
    one = WRITERS[first](tmp_path / "a.monitor.csv")
    before = (tmp_path / "a.monitor.csv").read_bytes()
    says = "a.monitor.csv is being written by another writer in this process & close that one & a file of its own"
    refused(lambda: WRITERS[second](tmp_path / "a.monitor.csv"), FileInUse, FileExistsError, ConfigError, says=says)
    assert (tmp_path / "a.monitor.csv").read_bytes() == before
    one.close()
    WRITERS[second](tmp_path / "a.monitor.csv").close()


def test_writers_of_one_process_may_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.monitor.csv"
    with (
        contextlib.closing(ResultsFile(path)) as first,
        contextlib.closing(ResultsFile(path, append=True)) as second,
    ):
        for number, writer in enumerate([first, second, second, first]):
            writer.write({"r": number, "l": 1, "t": 0.5})
    assert [line[0] for line in path.read_text().splitlines()] == ["#", "r", "0", "1", "2", "3"]


def test_a_link_to_the_same_file_is_the_same_file(tmp_path: Path) -> None:
    with contextlib.closing(ResultsFile(tmp_path / "a.monitor.csv")):
        (tmp_path / "b.monitor.csv").symlink_to(tmp_path / "a.monitor.csv")
        os.link(tmp_path / "a.monitor.csv", tmp_path / "c.monitor.csv")
        for name in "bc":
            refused(lambda name=name: ResultsFile(tmp_path / f"{name}.monitor.csv"), FileInUse, says="this process")


def test_a_writer_in_another_process_is_named_by_its_number(tmp_path: Path) -> None:
    script = "import sys; from vecenv.wrappers._results_file import ResultsFile; f = ResultsFile(sys.argv[1]); print(1)"
    source = str(Path(vecenv.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}; sys.stdout.flush(); sys.stdin.read()", str(tmp_path / "a.monitor.csv")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": source},
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        refused(lambda: ResultsFile(tmp_path / "a.monitor.csv"), FileInUse, says=f"written by process {other.pid}")
        other.kill()
    ResultsFile(tmp_path / "a.monitor.csv", append=True).close()


def test_workers_that_were_forked_meanwhile_do_not_keep_the_file(tmp_path: Path) -> None:
    first = ResultsFile(tmp_path / "a.monitor.csv")
    with make("process", Word, 2) as envs:
        envs.reset(seed=0)
        first.close()
        second = ResultsFile(tmp_path / "a.monitor.csv", append=True)
        second.write({"r": 1, "l": 1, "t": 1})
        second.close()


def test_a_writer_that_nobody_has_any_more_is_no_writer(tmp_path: Path) -> None:
    ResultsFile(tmp_path / "a.monitor.csv")
    gc.collect()
    ResultsFile(tmp_path / "a.monitor.csv").close()


# --- 81: formulas ----------------------------------------------------------------------------------------------------

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")', "-", "\n=1"]
HARMLESS = ["plain", "a=b", "a\nb", 'a "quoted" word', "a,b", "-5", "+1e3", "", "ünicode", "a\r\nb", "\udcff"]


@pytest.mark.parametrize("word", [*FORMULAS, *HARMLESS], ids=repr)
def test_no_text_becomes_a_formula_or_another_row(word: str, tmp_path: Path) -> None:
    with RecordResults(make("sync", lambda: Word(word), 2), tmp_path, info_keywords=("word",)) as envs:
        envs.reset(seed=1)
        for _ in range(3):
            envs.step([0, 1])
        path = envs.path
    with path.open(newline="", errors="surrogateescape") as file:
        next(file)
        rows = list(csv.reader(file))
    assert rows[0] == ["r", "l", "t", "word"]
    assert rows[1][0] == "-1.5"
    written = word.replace("\udcff", "\\udcff")
    assert {row[3] for row in rows[1:]} == {f"'{written}" if word in FORMULAS else written}
    assert all(len(row) == 4 for row in rows)


def test_names_of_columns_and_of_envs_are_no_formulas_either(tmp_path: Path) -> None:
    with contextlib.closing(ResultsFile(tmp_path, {"env_id": "=1\n=2"}, ("=cmd",))) as file:
        file.write({"r": 1.0, "l": 2, "t": 3.0, "=cmd": 4})
    lines = (tmp_path / "monitor.csv").read_text().splitlines()
    assert lines == ['#{"env_id": "=1\\n=2"}', "r,l,t,'=cmd", "1.0,2,3.0,4"]


def test_tables_of_evaluations_hold_no_formulas(tmp_path: Path) -> None:
    from vecenv import scenarios
    from vecenv.evaluation import evaluate

    found = evaluate(
        lambda obs: np.zeros(len(obs), np.int64),
        "CartPole-v1",
        episodes=2,
        scenarios=scenarios.list({"=1+1": {}}),
        num_envs=2,
    )
    found.to_csv(tmp_path / "table.csv")
    found.episodes_to_csv(tmp_path / "episodes.csv")
    for name in ("table.csv", "episodes.csv"):
        with (tmp_path / name).open(newline="") as file:
            assert all(row["scenario"] == "'=1+1" for row in csv.DictReader(file))


# --- 82: no room -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RecordResults", "VecMonitor", "Monitor"])
def test_a_full_disk_is_one_warning_and_envs_go_on(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.monitor.csv").symlink_to("/dev/full")
    says = r"/dev/full cannot be written \(No space left on device\).*make room"
    with pytest.warns(RuntimeWarning, match=says) as caught:  # noqa: PT031  # one in all of this
        envs = WRITERS[name](tmp_path / "a.monitor.csv")
        for _ in range(3):
            envs.reset()
            envs.step([0] if name != "Monitor" else 0)
    assert len(caught) == 1
    writer = envs.results_writer if name != "RecordResults" else envs
    assert writer.lost == 3
    envs.close()


def test_rows_are_whole_or_missing_and_come_again_when_there_is_full_disk(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path, {"t_start": 0.0})
    row = {"r": 1.25, "l": 10, "t": 1.0}
    file.write(row)
    size = (tmp_path / "monitor.csv").stat().st_size
    with full_disk(size + 5):
        with pytest.warns(RuntimeWarning, match="monitor.csv cannot be written"):
            file.write(row)
        file.write(row)  # no second warning
    assert (tmp_path / "monitor.csv").stat().st_size == size
    file.write(row)
    file.close()
    assert file.lost == 2
    assert len(load_results(tmp_path)) == 2


def test_a_file_that_had_no_room_for_its_first_line_gets_it_later(tmp_path: Path) -> None:
    with full_disk(3), pytest.warns(RuntimeWarning, match="cannot be written"):
        file = ResultsFile(tmp_path, {"t_start": 0.0})
    file.write({"r": 1.25, "l": 10, "t": 1.0})
    file.close()
    assert file.lost == 0
    assert load_results(tmp_path)["l"].tolist() == [10]


def test_other_files_that_cannot_be_written_leave_the_old_one(tmp_path: Path) -> None:
    from vecenv.buffers import ReplayBuffer

    buffer = ReplayBuffer(spaces.Box(-1, 1, (3,)), spaces.Discrete(2), 100, 1)
    buffer.save(tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    with full_disk(100), pytest.raises(OSError, match="File too large"):
        buffer.save(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]


# --- reading them ----------------------------------------------------------------------------------------------------


def test_a_folder_without_files_of_episodes_is_an_error(tmp_path: Path) -> None:
    refused(
        lambda: load_results(tmp_path), ConfigError, ValueError, says="no files .*monitor.csv in & " + tmp_path.name
    )
