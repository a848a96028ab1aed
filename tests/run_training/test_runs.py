"""Small real runs of every mode."""

import csv
import functools
import json
import time
import warnings

import pytest
import torch

from tests.run_training import slow
from vecenv.rllib._connectors import SampleActions
from vecenv.rllib._learner import PackedAdvantages
from vecenv.run_training.__main__ import main
from vecenv.run_training._arguments import MODES
from vecenv.run_training._results import SPLIT

SMALL = "--mode all --num-envs 16 --train-batch 512 --minibatch 128 --iterations 2 --seed 3".split()


@pytest.fixture(scope="module")
def run(tmp_path_factory, cluster):
    """A directory with results of the three modes, and a second one of the same command.

    The runs use the cluster of the tests; that a run starts and ends its own is tested with Ctrl-C.
    """
    paths = [tmp_path_factory.mktemp("runs") / name for name in "ab"]
    for path in paths:
        assert main([*SMALL, "--out", str(path)]) == 0
    return paths


def results(path, mode):
    return json.loads((path / mode / "results.json").read_text())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", MODES)
def test_json_holds_arguments_versions_rows_and_a_summary(run, mode):
    content = results(run[0], mode)
    assert content["mode"] == content["config"]["mode"] == mode
    assert content["ending"] == "finished"
    assert content["config"]["num_envs"] == 16
    assert content["config"]["seed"] == 3
    assert {"vecenv", "python", "ray", "torch", "gymnasium", "numpy"} == set(content["versions"])
    rows = content["rows"]
    assert [row["iteration"] for row in rows] == [1, 2]
    assert all(512 <= row["steps"] < 512 + 16 for row in rows)
    assert rows[1]["total_steps"] == rows[0]["steps"] + rows[1]["steps"] == content["summary"]["total_steps"]
    assert all(row["episodes"] > 0 for row in rows)
    assert all(8 <= row["return_min"] <= row["return_mean"] <= row["return_max"] <= 512 for row in rows)
    assert content["summary"]["last_return"] == rows[1]["return_mean"]
    assert content["summary"]["samples_per_second"] == rows[1]["samples_per_second"]  # the first one warms up


@pytest.mark.parametrize("mode", MODES)
def test_csv_holds_the_same_rows(run, mode):
    with (run[0] / mode / "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    rows = results(run[0], mode)["rows"]
    assert [{name: float(value) for name, value in row.items()} for row in table] == rows


@pytest.mark.parametrize("mode", MODES)
def test_sampling_connectors_sgd_and_the_rest_add_up_to_the_iteration(run, mode):
    for row in results(run[0], mode)["rows"]:
        parts = [row[name] for name in (*SPLIT, "other_seconds")]
        assert min(parts) > 0, "a second that is counted twice would make the rest negative"
        assert sum(parts) == pytest.approx(row["seconds"])


def slowed(method, seconds):
    @functools.wraps(method)
    def slow(*args, **kwargs):
        time.sleep(seconds)
        return method(*args, **kwargs)

    return slow


@pytest.mark.parametrize("mode", MODES)
def test_time_is_counted_where_it_is_spent(mode, monkeypatch, tmp_path, cluster):
    """Every part is made slow by a known time, much longer than what RLlib does between the parts."""
    from ray.rllib.connectors.learner import GeneralAdvantageEstimation
    from ray.rllib.connectors.module_to_env import GetActions

    for connector in (GetActions, SampleActions):  # once for each step of the four envs together
        monkeypatch.setattr(connector, "__call__", slowed(connector.__call__, 0.02))
    for connector in (GeneralAdvantageEstimation, PackedAdvantages):  # once for each batch
        monkeypatch.setattr(connector, "__call__", slowed(connector.__call__, 0.1))
    monkeypatch.setattr(torch.optim.Adam, "step", slowed(torch.optim.Adam.step, 0.05))
    command = "--env tests.run_training.slow:SlowCartPole-v0 --engine sync --num-envs 4 --train-batch 32 --minibatch 16"
    assert main([*command.split(), "--mode", mode, "--iterations", "2", "--epochs", "2", "--out", str(tmp_path)]) == 0
    for row in results(tmp_path, mode)["rows"]:
        assert row["sampling_seconds"] >= 32 * slow.SECONDS
        assert row["connectors_seconds"] >= 8 * 0.02 + 0.1
        assert row["sgd_seconds"] >= 2 * 2 * 0.05
        assert row["other_seconds"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_the_same_seed_gives_the_same_results(run, mode):
    measured = ("seconds", "total_seconds", "samples_per_second")
    first, second = (
        [
            {name: value for name, value in row.items() if name not in measured and not name.endswith("_seconds")}
            for row in results(path, mode)["rows"]
        ]
        for path in run
    )
    assert first == second


def test_packed_and_native_learn_from_the_same_samples(run):
    packed, native = (results(run[0], mode)["rows"] for mode in ("packed_vec", "native"))
    assert [row["return_mean"] for row in packed] == [row["return_mean"] for row in native]


def test_the_plot_is_a_picture_with_ink_in_three_colours(run):
    from matplotlib import colors, image

    picture = image.imread(run[0] / "comparison.png")[..., :3]
    height, width, _ = picture.shape
    assert height > 500
    assert width > 1000
    for third in (picture[:, : width // 3], picture[:, width // 3 : 2 * width // 3], picture[:, 2 * width // 3 :]):
        for name in ("tab:orange", "tab:blue", "tab:green"):
            assert (abs(third - colors.to_rgb(name)).max(axis=-1) < 0.02).sum() > 100


def test_resume_goes_on_from_a_checkpoint(run, tmp_path):
    checkpoint = str(run[0] / "native" / "checkpoint")
    assert main([*SMALL[2:], "--resume", checkpoint, "--out", str(tmp_path)]) == 0
    before, after = results(run[0], "native")["rows"], results(tmp_path, "native")["rows"]
    assert after[0]["total_steps"] == before[-1]["total_steps"] + after[0]["steps"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (["--mode", "vec"], "--mode native, and this one has vec"),
        (["--hidden", "8"], "--hidden 64 64, and this one has 8"),
        (["--env", "Acrobot-v1"], "--env CartPole-v1, and this one has Acrobot-v1"),
        (["--normalize-observations"], "--normalize-observations False, and this one has True"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_in_one_line(run, tmp_path, capsys, changed, said):
    checkpoint = str(run[0] / "native" / "checkpoint")
    assert main([*SMALL[2:], *changed, "--resume", checkpoint, "--out", str(tmp_path / "new")]) == 2
    assert f"--resume {checkpoint} is of a run with {said}; give the same\n" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_resumed_run_learns_at_its_own_rate_from_the_first_step(run, tmp_path):
    checkpoint = run[0] / "native" / "checkpoint"
    assert main([*SMALL[2:], "--resume", str(checkpoint), "--lr", "1e-300", "--out", str(tmp_path)]) == 0
    before, after = (weights(path) for path in (checkpoint, tmp_path / "native" / "checkpoint"))
    assert before.keys() == after.keys()
    assert all((before[name] == after[name]).all() for name in before), "a rate of zero in float32"


def weights(checkpoint):
    from ray.rllib.core.rl_module.rl_module import RLModule

    path = checkpoint / "learner_group" / "learner" / "rl_module" / "default_policy"
    return RLModule.from_checkpoint(str(path)).get_state()


@pytest.mark.parametrize("mode", MODES)
def test_the_checkpoint_goes_on_where_the_run_ended(run, mode):
    from ray.rllib.algorithms.ppo import PPO

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # RLlib's own deprecations
        algorithm = PPO.from_checkpoint(str(run[0] / mode / "checkpoint"))
        assert algorithm.iteration == 2
        algorithm.stop()


def test_lines_tables_and_silence_of_ray(tmp_path, capfd):
    assert main([*SMALL[2:], "--out", str(tmp_path)]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    title, first, second, last = out.splitlines()
    assert title == "PPO on CartPole-v1, 16 envs, 512 steps/iteration"
    assert first.startswith("native 1/2: return ")
    assert second.startswith("native 2/2: return ")
    for part in ("samples/s", "sampling", "connectors", "SGD"):
        assert part in second
    assert last == f"results: {tmp_path}"
    assert not (tmp_path / "comparison.png").exists()
