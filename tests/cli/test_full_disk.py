"""A disk that is full costs what could not be written: training goes on, says so, and tries again."""

import json

import numpy as np
import pytest

from tests.cli.test_train import read_events
from tests.full_disk import full_disk
from vecenv.cli._run_files import RunFiles
from vecenv.run_training._results import Row, RunWriter
from vecenv.trainers import PPO, Progress
from vecenv.wrappers import load_results

SMALL = ("--eval-episodes", 0, "--checkpoints", 2)
TRAIN = ("train", "CartPole-v1", "--steps", 8192, "--name", "full", *SMALL)


def test_training_goes_on_and_saves_when_there_is_room_again(inside, tmp_path, monkeypatch):
    attempts, save = [], RunFiles.save
    with full_disk(100_000) as make_room:

        def counted(self, trainer):
            attempts.append(trainer.steps)
            if len(attempts) == 3:
                make_room()
            return save(self, trainer)

        monkeypatch.setattr(RunFiles, "save", counted)
        _, err = inside(*TRAIN)
    folder = tmp_path / "runs" / "full" / "checkpoints"
    first = folder / f"step-{attempts[0]}.npz"
    assert f"there is no checkpoint yet: [Errno 27] File too large: '{first.relative_to(tmp_path)}'; training" in err
    assert err.count("no checkpoint yet") == 2
    assert attempts[2] < 2 * attempts[0], "the next attempt comes sooner than the next checkpoint"
    assert sorted(int(file.stem[5:]) for file in folder.iterdir()) == attempts[2:]
    assert attempts[-1] == 8192
    PPO.load(folder / "step-8192.npz").close()


def test_a_disk_that_stays_full_costs_the_files_and_not_the_result(inside, tmp_path):
    inside("train", "CartPole-v1", "--steps", 2048, "--name", "full", *SMALL)
    run = tmp_path / "runs" / "full"
    before = {file: file.read_bytes() for file in (run / "checkpoints").iterdir()}
    with full_disk(100_000):
        out, err = inside("train", "runs/full", "--steps", 4096, "--eval-episodes", 0, "--json", code=1)
    assert json.loads(out)["steps"] == 4096
    assert "there is no checkpoint: [Errno 27] File too large: 'runs/full/checkpoints/step-4096.npz'" in err
    assert {file: file.read_bytes() for file in (run / "checkpoints").iterdir()} == before
    inside("train", "runs/full", "--steps", 4096, "--eval-episodes", 0)


@pytest.mark.timeout(20)
@pytest.mark.filterwarnings("ignore:.* cannot be written")
def test_episodes_and_curves_go_on_when_there_is_room_again(tmp_path):
    files = RunFiles(tmp_path, {"env": "CartPole-v1"})

    def note(steps):
        files.note(
            Progress(
                steps=steps, total_steps=100, seconds=1.0, steps_per_second=1.0, episodes=2, mean_return=1.0,
                mean_length=1.0, returns=np.ones(2), lengths=np.ones(2, int),
                losses={"policy": 0.5, "value": float("nan")}, time={}, updates=1,
            )
        )  # fmt: skip

    with full_disk(0):
        for steps in range(50):
            note(steps)
    with full_disk(500):
        for steps in range(50, 100):
            note(steps)
    note(100)
    files.close()
    rows = load_results(tmp_path)
    assert 2 < len(rows) < 100
    curves = read_events(next(tmp_path.glob("events.out.tfevents.*")))
    assert set(curves) == {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/fps", "train/policy"}
    steps = [step for step, _ in curves["train/policy"]]
    assert (steps[0], steps[-1]) == (50, 100)
    assert len(steps) < 51, "some points are missing, none is torn"


def test_the_table_of_a_run_with_rllib_gets_its_missing_rows_later(tmp_path):
    writer = RunWriter(tmp_path / "run")
    rows = [Row(number, *[None if place == 3 else 1.5 for place in range(13)]) for number in range(4)]  # type: ignore[arg-type]
    writer.add(rows[0])
    with full_disk(0), pytest.warns(RuntimeWarning, match=r"File too large: '.*results.csv'; training goes on"):
        writer.add(rows[1])
    assert len((tmp_path / "run" / "results.csv").read_text().splitlines()) == 2, "the old table stays"
    writer.add(rows[2])
    table = (tmp_path / "run" / "results.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in table] == ["iteration", "0", "1", "2"]
