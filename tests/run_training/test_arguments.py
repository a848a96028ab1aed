"""What is refused before Ray starts, and what the help says."""

import dataclasses
import sys

import pytest

from vecenv.run_training.__main__ import main
from vecenv.run_training._arguments import Arguments, directory, parse


def ray_runs():
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


def test_the_defaults_are_those_of_the_dataclass():
    assert parse([]) == Arguments()


def test_every_argument_reaches_its_field(tmp_path):
    text = (
        "--mode all --env Acrobot-v1 --num-envs 8 --train-batch 64 --minibatch 32 --batch-units packed "
        "--no-batch-check --epochs 3 --iterations 4 --env-runners 1 --seed 5 --lr 0.1 --gamma 0.5 --hidden 8 9 10 "
        "--normalize-observations --engine sync --torch-threads 2 --gae-lambda 0.9 --clip 0.1 --entropy 0.01 "
        f"--preprocessing dqn --num-gpus-per-learner 1 --resume {tmp_path} --out {tmp_path}"
    )
    arguments = parse(text.split())
    for field in dataclasses.fields(Arguments):
        assert getattr(arguments, field.name) != field.default
    assert arguments.hidden == (8, 9, 10)
    assert arguments.modes == ("vec", "packed_vec", "native")
    assert arguments.batch_steps == 8 * 64


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("--mode packed", "'packed' for argument '--mode'"),
        ("--num-env 3", "Did you mean --num-envs?"),
        ("--num-envs many", "--num-envs"),
        ("--num-envs 0", "--num-envs must be an int >= 1, got 0"),
        ("--hidden 64 0", "--hidden must be an int >= 1, got 0"),
        ("--env-runners -1", "--env-runners must be an int from 0 to 10000, got -1"),
        ("--lr 0", "--lr must be a finite number > 0"),
        ("--lr nan", "--lr must be a finite number > 0"),
        ("--lr inf", "--lr must be a finite number > 0"),
        ("--seed 4294967296", "--seed must be an int from 0 to 2147483648"),
        ("--hidden", "--hidden needs at least one layer"),
        ("--gamma 1.5", "--gamma must be from 0 to 1"),
        ("--gae-lambda -0.1", "--gae-lambda must be from 0 to 1, got -0.1"),
        ("--clip 0", "--clip must be a finite number > 0, got 0.0"),
        ("--entropy -1", "--entropy must be a finite number >= 0, got -1.0"),
        ("--num-gpus-per-learner 99", "--num-gpus-per-learner 99: torch finds"),
        ("--resume /no/such/run", "--resume /no/such/run is no checkpoint of RLlib"),
        ("--preprocessing dqn", "preprocessing is for Atari games, and CartPole-v1 is none"),
        ("--env no_such_package:Some-v0", "there is no module 'no_such_package'"),
        (
            "--env tests.run_training.broken:Broken-v0",
            "--env tests.run_training.broken:Broken-v0: env 0 raised OSError",
        ),
        ("--env tests.run_training.broken:BrokenReset-v0", "raised OSError in reset: the simulator does not start"),
        ("--env tests.run_training.broken:BrokenStep-v0", "raised OSError in step: the simulator does not start"),
        (
            "--env tests.run_training.unimportable:Any-v0",
            "importing tests.run_training.unimportable raised OSError: a library is damaged",
        ),
        ("--env ALE/Pong-v5 --engine sync", "no filters for observations of shape (210, 160, 3)"),
        ("--env ConnectFourDuel-v0 --engine sync", "agents that act by turns are not supported in mode='native'"),
        ("--env CartPol-v1", "Did you mean: `CartPole`?"),
        ("--env CartPole-v7", "version `v7`"),
        ("--env CarRacing-v3 --engine compiled", "kernel"),
        ("--minibatch 3000", "minibatches of 3000 do not divide a train batch of 32768"),
        ("--train-batch 1024", "a minibatch of 4096 is larger than the train batch of 1024"),
        ("--mode all --train-batch 1024", "larger than the train batch"),
        ("--out /dev/null/results", "--out /dev/null/results cannot be written to"),
    ],
)
def test_a_bad_argument_is_refused_in_one_line_before_ray_starts(argv, said, capsys):
    before = ray_runs()
    assert main(argv.split()) == 2
    assert ray_runs() is before
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1


def test_a_checkpoint_of_one_mode_is_not_resumed_in_all(tmp_path, capsys):
    (tmp_path / "rllib_checkpoint.json").touch()
    assert main(["--resume", str(tmp_path), "--mode", "all"]) == 2
    assert "--resume goes on in the mode of its checkpoint" in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_line_that_brings_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert main([]) == 2
    assert "pip install 'vecenv[rllib]' (tyro is missing)" in capsys.readouterr().err


def test_a_directory_with_results_is_not_written_to_again(tmp_path, capsys):
    (tmp_path / "native").mkdir()
    assert main(["--out", str(tmp_path)]) == 2
    assert "already has results of native" in capsys.readouterr().err
    assert list((tmp_path / "native").iterdir()) == []


def test_a_refused_run_creates_no_directory(tmp_path):
    assert main(["--minibatch", "3000", "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()


def test_the_default_directory_names_env_mode_and_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = directory(parse(["--env", "vecenv:vecenv/CartPole-v1"]))
    assert path.parent == tmp_path / "runs"
    assert path.name.startswith("vecenv-vecenv-CartPole-v1-native-20")


def test_the_help_shows_every_argument_its_default_and_examples(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert not end.value.code
    text = capsys.readouterr().out
    for field in dataclasses.fields(Arguments):
        assert f"--{field.name.replace('_', '-')}" in text
    assert text.count("(default:") == len(dataclasses.fields(Arguments))
    assert "python -m vecenv.run_training --mode all --iterations 10" in text[text.index("examples:") :]
