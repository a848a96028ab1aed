"""`vecenv train`: what happens when something fails, algorithms, options of make, Atari, evaluation while training."""

import importlib.util
import json
import re
import signal
import threading
from contextlib import closing

import numpy as np
import pytest

import vecenv
from tests.cli import cli_envs
from tests.kernels.shipped import SHIPPED
from vecenv.cli import _signals, _training, train
from vecenv.cli._run_files import RunFiles
from vecenv.cli._sources import env_of, find_checkpoint, find_env, load_policy
from vecenv.errors import ConfigError
from vecenv.kernel.language.registry import WITH_AGENTS
from vecenv.mujoco._registry import GYMNASIUM
from vecenv.presets import ATARI, PRESETS, presets_for
from vecenv.trainers import DQN, PPO, SAC
from vecenv.trainers._collect import Collector
from vecenv.wrappers import load_results

FEW = ("--eval-episodes", 0)
SMALL = ("--set", "num_envs=4", "rollout_steps=32", "hidden=[16]")


@pytest.fixture
def fragile(monkeypatch):
    monkeypatch.setattr(cli_envs.Fragile, "steps", 0)


def test_what_was_learnt_is_saved_when_an_env_fails_and_the_run_goes_on_from_there(inside, tmp_path, fragile):
    env = "tests.cli.cli_envs:Fragile"
    options = ("--name", "f", "--engine", "sync", "--steps", 512, "--record", *SMALL, *FEW)
    _, err = inside("train", env, *options, code=1)
    assert "the physics exploded" in err
    assert "continue with: vecenv train runs/f --trust" in err
    (file,) = (tmp_path / "runs/f/checkpoints").iterdir()
    assert file.name == "step-128.npz"
    replay = re.search(r"replay it: vecenv (replay \S+\.npz --trust)", err)[1]
    out, _ = inside(*replay.split())
    assert "reproduced: ZeroDivisionError in step 2" in out
    cli_envs.Fragile.steps = -10_000  # it is mended
    out, _ = inside("train", "runs/f", "--trust", *FEW, "--json")
    assert json.loads(out)["steps"] == 512
    assert json.loads((tmp_path / "runs/f/config.json").read_text())["make"] == {"record": True}


def test_without_a_recording_the_options_that_help_are_named(inside, fragile):
    _, err = inside("train", "tests.cli.cli_envs:Fragile", "--engine", "sync", *SMALL, *FEW, code=1)
    assert "continue with --record to replay such a failure, with --on-error restart" in err


def test_a_run_may_go_on_with_other_answers_to_failures(inside, tmp_path, monkeypatch):
    monkeypatch.setattr(cli_envs.Late, "fails", True)
    monkeypatch.setattr(cli_envs.Late, "once", True)
    env = "tests.cli.cli_envs:Late"
    err = inside("train", env, "--name", "f", "--engine", "sync", "--steps", 512, *SMALL, *FEW, code=1)[1]
    assert "continue with --record to replay such a failure, with --on-error restart" in err
    monkeypatch.setattr(cli_envs.Late, "fails", True)
    out, _ = inside("train", "runs/f", "--trust", "--on-error", "restart", "--record", *FEW, "--json")
    assert json.loads(out)["steps"] == 512
    assert not cli_envs.Late.fails, "it failed again"
    err = inside("train", "runs/f", "--trust", "--engine", "process", code=2)[1]
    assert "continues with its own settings; leave out --engine" in err
    inside("train", "CartPole-v1", "--steps", 512, "--name", "c", *FEW)
    out, _ = inside("train", "runs/c", "--steps", 8192, "--timeout", 9, *FEW, "--json")
    assert json.loads(out)["steps"] == 8192


def test_an_env_that_ends_the_process_does_not_end_the_command(inside):
    env = "tests.cli.cli_envs:Quits"
    assert "env 0 raised SystemExit in step: 0" in inside("train", env, *FEW, code=1)[1]
    out, _ = inside("check", env, "--steps", 20, code=1)
    assert "SystemExit: 0" in out


def test_envs_that_fail_at_masked_actions_are_trained_evaluated_and_checked(inside):
    env = "tests.cli.cli_envs:Masked"
    inside("train", env, "--name", "m", "--steps", 256, "--eval-episodes", 2, *SMALL, "mask=action_mask")
    assert len(json.loads(inside("eval", "runs/m", "--trust", "--episodes", 2, "--json")[0])["episodes"]) == 2
    found = json.loads(inside("check", env, "--steps", 60, "--json")[0])
    results = {one["check"]: one["result"] for one in found["checks"]}
    assert results["values"] == results["engines"] == results["buffer reuse"] == "ok"
    assert results["api"] == results["speed"] == "skipped"
    found = json.loads(inside("check", "tests.cli.cli_envs:OldReset", "--steps", 20, "--json", code=1)[0])
    assert {one["check"]: one["result"] for one in found["checks"]}["api"] == "failed", "it has no masks"


@pytest.mark.skipif(not importlib.util.find_spec("mujoco"), reason="needs vecenv[mujoco]")
def test_mujoco_tasks_pass_the_check(inside):
    found = json.loads(inside("check", "HalfCheetah-v5", "--steps", 20, "--json")[0])
    results = {one["check"]: (one["result"], one["message"]) for one in found["checks"]}
    assert results["engines"][0] == "ok"
    assert results["engines"][1].startswith("sync, mujoco, thread, process: the same bits")
    assert "device" not in found["engine"]["steps_per_second"], "it compiles for minutes, and is other physics"


def test_evaluations_run_on_the_engine_that_was_asked_for(inside, monkeypatch):
    seen, evaluate = [], vecenv.evaluate
    monkeypatch.setattr(
        "vecenv.evaluation.evaluate", lambda *what, **how: seen.append(how.get("engine")) or evaluate(*what, **how)
    )
    for engine in ("thread", "auto"):
        inside("train", "tests.cli.cli_envs:Walk", "--engine", engine, "--steps", 128, "--eval-episodes", 1, *SMALL)
    assert seen == ["thread", None]
    made = []
    monkeypatch.setattr("vecenv.cli._sources.make", lambda *what, **how: made.append(how) or vecenv.make(*what, **how))
    for number, engine in ((1, "thread"), (2, None)):
        made.clear()
        inside("eval", f"runs/Walk-ppo-{number}", "--trust", "--episodes", 1)
        assert [how.get("engine") for how in made] == [engine], "no trial with another engine, to load the agent"


def test_a_json_document_is_all_on_stdout_whatever_envs_print(command):
    env = ("tests.cli.cli_envs:Prints", "--engine", "process", "--workers", 2, "--eval-episodes", 1)
    done = command("train", *env, "--steps", 256, "--json", *SMALL)
    assert json.loads(done.stdout)["steps"] == 256
    assert "step\nstep\n" in done.stderr


def test_a_failed_trial_is_called_one_and_names_options_of_the_command(inside):
    err = inside("train", "tests.cli.cli_envs:Raises", "--record", "--envs", 4, *FEW, code=1)[1]
    assert "the physics exploded" in err
    assert "a trial of a few steps" in err
    assert "--engine sync makes no trial, --on-error restart restarts envs that fail" in err
    assert "choose.py" not in err
    assert "on_error" not in err


def test_the_reason_for_an_engine_names_the_engine(inside):
    options = ("--workers", 2, "--envs", 4, "--steps", 128, "--set", "rollout_steps=32", "hidden=[16]", *FEW)
    err = inside("train", "tests.cli.cli_envs:Walk", *options)[1]
    assert "(the process engine, because the sync engine has no option workers (got 2))" in err


def test_a_run_goes_on_without_the_episode_of_a_failed_env(inside, fragile, monkeypatch):
    monkeypatch.setattr(cli_envs.Fragile, "once", True)
    options = ("--name", "r", "--engine", "sync", "--steps", 512, "--on-error", "restart", *SMALL, *FEW)
    out, _ = inside("train", "tests.cli.cli_envs:Fragile", *options, "--json")
    assert json.loads(out)["steps"] == 512
    assert cli_envs.Fragile.steps > 200


def test_an_interrupt_at_once_saves_too(inside, monkeypatch, tmp_path):
    receive, calls = Collector.receive, []

    def interrupted(self, group):
        calls.append(group)
        if len(calls) == 80:
            raise KeyboardInterrupt
        return receive(self, group)

    monkeypatch.setattr(Collector, "receive", interrupted)
    _, err = inside("train", "CartPole-v1", "--name", "i", *SMALL, *FEW, code=130)
    assert "interrupted; saved runs/i/checkpoints/step-256.npz" in err
    assert "continue with: vecenv train runs/i\n" in err
    monkeypatch.setattr(Collector, "receive", receive)
    inside("train", "runs/i", "--steps", 512, *FEW)


def test_a_sigterm_in_a_long_rollout_saves_within_seconds(inside, monkeypatch, tmp_path):
    receive, calls = Collector.receive, []

    def terminated(self, group):
        calls.append(group)
        if len(calls) == 80:
            signal.raise_signal(signal.SIGTERM)
        return receive(self, group)

    monkeypatch.setattr(Collector, "receive", terminated)
    monkeypatch.setattr(_signals, "GRACE", 0.01)
    long = ("--set", "num_envs=1", "rollout_steps=1000000", "hidden=[16]")
    _, err = inside("train", "CartPole-v1", "--name", "t", *long, *FEW, code=143)
    assert len(calls) < 900_000
    assert "interrupted; saved runs/t/checkpoints/step-0.npz" in err
    assert "continue with: vecenv train runs/t\n" in err
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.fixture
def outside():
    """Signals that none of our handlers got, which would end the process."""
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)


def signals_at(monkeypatch, owner, name, number, *calls):
    """Send a signal to this process before these calls of a method; a call that is named twice gets two."""
    method, made = getattr(owner, name), []

    def signalled(self, *arguments):
        made.append(arguments)
        for _ in range(calls.count(len(made))):
            signal.raise_signal(number)
        return method(self, *arguments)

    monkeypatch.setattr(owner, name, signalled)


def test_a_signal_while_an_interrupted_run_is_saved_does_not_end_the_saving(inside, monkeypatch, tmp_path):
    signals_at(monkeypatch, Collector, "receive", signal.SIGTERM, 80, 80)
    signals_at(monkeypatch, RunFiles, "save", signal.SIGTERM, 1)
    _, err = inside("train", "CartPole-v1", "--name", "t", *SMALL, *FEW, "--checkpoints", 1, code=143)
    assert "interrupted; saved runs/t/checkpoints/step-256.npz" in err
    assert (tmp_path / "runs/t/checkpoints/step-256.npz").is_file()


def test_a_signal_while_results_are_saved_leaves_all_of_them(inside, monkeypatch, tmp_path, outside):
    for owner, name, call in ((RunFiles, "save", 1), (RunFiles, "write_json", 2)):
        with monkeypatch.context() as patch:
            signals_at(patch, owner, name, signal.SIGTERM, call)
            options = ("--name", name, "--steps", 128, "--checkpoints", 1, *SMALL, *FEW)
            _, err = inside("train", "CartPole-v1", *options, code=143)
        assert outside == []
        assert (tmp_path / "runs" / name / "checkpoints/step-128.npz").is_file()
        assert json.loads((tmp_path / "runs" / name / "result.json").read_text())["steps"] == 128
        assert f"continue with: vecenv train runs/{name} --steps 256\n" in err


def test_the_timer_of_a_sigterm_cannot_fire_after_its_block(monkeypatch, outside):
    class AtTheLastMoment(threading.Timer):
        def cancel(self):
            signal.raise_signal(signal.SIGTERM)
            super().cancel()

    monkeypatch.setattr(_signals.threading, "Timer", AtTheLastMoment)
    with _signals.stop_request(lambda: None) as stop:
        signal.raise_signal(signal.SIGTERM)
    assert stop.code == 143
    assert outside == []
    assert not any(isinstance(thread, AtTheLastMoment) for thread in threading.enumerate())


def test_a_second_signal_after_a_stop_names_the_command_that_goes_on(inside, monkeypatch):
    signals_at(monkeypatch, Collector, "receive", signal.SIGINT, 40)
    monkeypatch.setattr(_training, "_draw", lambda *_: signal.raise_signal(signal.SIGINT))
    _, err = inside("train", "CartPole-v1", "--name", "i", "--steps", 1024, *SMALL, code=130)
    assert "stopping and saving; a second signal (Ctrl-C) stops at once" in err
    assert "continue with: vecenv train runs/i\n" in err
    assert "after training" not in err


def test_an_agent_that_could_not_be_saved_is_not_called_saved(inside, monkeypatch):
    def full(self, trainer):
        raise OSError("the disk is full")

    monkeypatch.setattr(RunFiles, "save", full)
    monkeypatch.setattr(_training, "_evaluate", lambda *_: signal.raise_signal(signal.SIGINT))
    _, err = inside("train", "CartPole-v1", "--steps", 128, *SMALL, code=130)
    assert "there is no checkpoint: the disk is full" in err
    assert "interrupted; the agent is not saved" in err
    assert "continue with" not in err


def test_options_of_make_reach_the_engine_and_are_kept(inside, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("vecenv.cli._sources.make", lambda *what, **how: seen.append(how) or vecenv.make(*what, **how))
    options = ("--engine", "process", "--workers", 2, "--timeout", 30, "--envs", 4, "--steps", "2e2")
    inside("train", "tests.cli.cli_envs:Walk", "--name", "w", *options, "--set", "rollout_steps=32", *FEW)
    config = json.loads((tmp_path / "runs/w/config.json").read_text())
    assert config["make"] == {"workers": 2, "timeout": 30.0}
    assert config["steps"] == 200
    assert {"engine": "process", "workers": 2, "timeout": 30.0}.items() <= seen[0].items()
    assert "--workers" in inside("train", "runs/w", "--steps", 999, "--workers", 3, code=2)[1]


def test_the_algorithm_is_the_one_there_are_settings_for(inside, tmp_path):
    few = ("--steps", 400, "--set", "hidden=[16]", "minibatch=16", "--name")
    inside("train", "Pendulum-v1", *few, "p", *FEW)
    inside("train", "MountainCar-v0", *few, "m", *FEW)
    inside("train", "CartPole-v1", "--algo", "dqn", *few, "c", *FEW)
    found = [json.loads((tmp_path / f"runs/{name}/config.json").read_text())["algo"] for name in "pmc"]
    assert found == ["sac", "ppo", "dqn"]
    inside("eval", "runs/m", "--episodes", 2)
    inside("train", "runs/c", "--steps", 600, *FEW)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("CartPole-v1", "--algo", "sac"), "--algo sac does not fit CartPole-v1: SAC needs a float Box"),
        (("Pendulum-v1", "--algo", "dqn"), "--algo dqn does not fit Pendulum-v1: DQN needs a Discrete"),
        (("CartPole-v1", "--steps", "1.5"), "Error parsing --steps: 1.5 is not a whole number"),
        (("CartPole-v1", "--steps", "many"), "Error parsing --steps: many is not a whole number"),
        (("CartPole-v1", "--eval-episodes", "abc"), "Error parsing --eval-episodes: abc is not a whole number"),
        (("CartPole-v1", "--envs", "1.5"), "Error parsing --envs: 1.5 is not a whole number"),
        (("CartPole-v1", "--seed", "99999999999999999999"), "seeds are from 0 to 2**63 - 2**32"),
        (("CartPole-v1", "--seed", "-1"), "-1 is not a seed"),
        (("CartPole-v1", "--until", "nan"), "Error parsing --until: nan is not a number"),
        (("CartPole-v1", "--until", "x"), "Error parsing --until: x is not a number"),
        (("CartPole-v1", "--device", "tpu-7"), "device must be"),
        (("CartPole-v1", "--device", "meta"), "device must be"),
        (("CartPole-v1", "--preprocessing", "dqn"), "preprocessing is for Atari games"),
        (("CartPole-v1", "--set", "gamma=2"), "--set gamma must be from 0 to 1"),
        (("CartPole-v1", "--set", "gama=0.9"), "there is no setting 'gama'; did you mean 'gamma'"),
    ],
)
def test_wrong_arguments_are_errors_with_exit_code_two_and_no_run(inside, tmp_path, arguments, message):
    assert message in inside("train", *arguments, code=2)[1]
    assert not (tmp_path / "runs").exists()


def test_counts_and_seeds_may_be_written_with_an_exponent_and_keep_their_digits(inside, tmp_path):
    numbers = ("--steps", "1.28e2", "--envs", "4e0", "--eval-episodes", "2e0", "--checkpoints", "1e0")
    small = ("--set", "rollout_steps=32", "hidden=[16]")
    inside("train", "CartPole-v1", "--name", "a", *numbers, "--seed", "1e2", "--until", "-1e9", *small)
    inside("train", "CartPole-v1", "--name", "b", *numbers, "--seed", 2**63 - 2**32, *small)
    configs = [json.loads((tmp_path / f"runs/{name}/config.json").read_text()) for name in "ab"]
    assert [config["seed"] for config in configs] == [100, 2**63 - 2**32]
    assert configs[0]["config"]["num_envs"] == 4
    inside("eval", "runs/a", "--episodes", "1e1", "--envs", "1e1")
    assert "--episodes: abc is not a whole number" in inside("eval", "runs/a", "--episodes", "abc", code=2)[1]


def test_an_env_whose_spaces_do_not_fit_is_a_wrong_argument(inside, trained):
    err = inside("eval", trained[0], "--env", "tests.cli.cli_envs:Walk", code=2)[1]
    assert "--env tests.cli.cli_envs:Walk does not fit" in err
    assert "shape (1,)" in err
    for command in ("eval", "play"):
        err = inside(command, trained[0], "--env", "tests.cli.cli_envs:ThreeActions", code=2)[1]
        assert "ThreeActions does not fit" in err
        assert "trained for the actions Discrete(2), those of these envs are Discrete(3)" in err


def test_the_best_agent_of_evaluations_is_kept(inside, tmp_path):
    inside("train", "CartPole-v1", "--name", "b", "--steps", 512, "--eval-every", 256, "--eval-episodes", 2, *SMALL)
    best, last = PPO.load(tmp_path / "runs/b/best.npz"), PPO.load(tmp_path / "runs/b/checkpoints/step-512.npz")
    assert [steps for steps, _ in last.evaluations["eval"]] == [256, 512]
    assert best.evaluations["eval"][-1][1] == max(mean for _, mean in last.evaluations["eval"])
    inside("eval", "runs/b/best.npz", "--episodes", 2)


def test_a_return_that_never_rose_is_named_with_what_to_try(inside):
    options = ("--engine", "sync", "--steps", 4096, *SMALL, *FEW)
    _, err = inside("train", "tests.cli.cli_envs:NoReward", *options)
    assert "the return never rose: 0.0 in the first tenth of the episodes, 0.0 in the last; try more steps" in err
    assert "--set normalize_obs=True normalize_reward=True, or --set entropy=0.01" in err
    settings = ("normalize_obs=True", "entropy=0.02")
    fewer = ("--engine", "sync", "--steps", 2048, *SMALL, *settings, *FEW)
    err = inside("train", "tests.cli.cli_envs:NoReward", *fewer)[1]
    assert "--set normalize_reward=True\n" in err
    assert "never rose" not in inside("train", "CartPole-v1", "--steps", 30_000, *FEW)[1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_after_training_names_the_commands_to_go_on(inside, monkeypatch, number, code):
    monkeypatch.setattr(_training, "_evaluate", lambda *_: signal.raise_signal(number))
    _, err = inside("train", "CartPole-v1", "--name", "i", "--steps", 128, *SMALL, code=code)
    assert "interrupted after training; the agent is saved in runs/i" in err
    assert "evaluate it with: vecenv eval runs/i" in err
    assert "continue with: vecenv train runs/i --steps 256" in err


@pytest.fixture
def late(monkeypatch):
    """Envs that begin to fail when the evaluation begins."""
    evaluate = _training._evaluate
    monkeypatch.setattr(cli_envs.Late, "fails", False)

    def begin(*arguments):
        cli_envs.Late.fails = True
        return evaluate(*arguments)

    monkeypatch.setattr(_training, "_evaluate", begin)
    return ("train", "tests.cli.cli_envs:Late", "--name", "l", "--engine", "sync", "--steps", 512, *SMALL)


def test_an_exception_in_the_evaluation_costs_neither_result_nor_curve_nor_the_commands(inside, late, tmp_path):
    out, err = inside(*late, "--eval-episodes", 2, code=1)
    assert "too late" in err
    assert "after training; the agent is saved in runs/l" in err
    assert "evaluate it with: vecenv eval runs/l --trust" in err
    assert "continue with: vecenv train runs/l --trust --steps 1024" in err
    assert "continue with --record to replay such a failure" in err
    assert "PPO: 512 steps" in out
    assert "curve.png" in out
    assert (tmp_path / "runs/l/curve.png").is_file()
    result = json.loads((tmp_path / "runs/l/result.json").read_text())
    assert result["steps"] == 512
    assert "evaluation" not in result


def test_the_evaluation_records_a_failure_too(inside, late):
    err = inside(*late, "--eval-episodes", 2, "--record", code=1)[1]
    replay = re.search(r"replay it: vecenv (replay \S+\.npz --trust)", err)[1]
    assert "reproduced: ZeroDivisionError in step 4" in inside(*replay.split())[0]


def test_the_evaluation_goes_on_without_the_episode_of_a_failed_env(inside, late, monkeypatch):
    monkeypatch.setattr(cli_envs.Late, "once", True)
    out, _ = inside(*late, "--eval-episodes", 2, "--on-error", "restart", "--json")
    assert json.loads(out)["evaluation"]["episodes"] == 2
    assert not cli_envs.Late.fails


def test_the_evaluation_of_an_env_whose_episodes_never_end_ends(inside, tmp_path, monkeypatch):
    monkeypatch.setattr("vecenv.evaluation._evaluate.LONGEST", 300)
    env = "gymnasium.envs.classic_control:PendulumEnv"
    out, err = inside("train", env, "--name", "p", "--steps", 128, "--eval-episodes", 2, *SMALL)
    assert "no episode ended in training, so the evaluation may take longer; Ctrl-C leaves it out" in err
    assert "over 2 new episodes (2 without an end)" in out
    assert json.loads((tmp_path / "runs/p/result.json").read_text())["evaluation"]["cut"] == 2
    out, _ = inside("eval", "runs/p", "--trust", "--episodes", 3, "--max-episode-steps", 7)
    assert "3 of them did not end and were cut after 7 steps" in out
    assert json.loads(inside("eval", "runs/p", "--trust", "--episodes", 1, "--json")[0])["cut"] == 1


def test_all_evaluations_have_the_timeout_of_training(inside, monkeypatch):
    seen = []
    evaluate = vecenv.evaluate
    for module in ("vecenv.evaluation", "vecenv.trainers._evaluation"):
        monkeypatch.setattr(f"{module}.evaluate", lambda *what, **how: seen.append(how) or evaluate(*what, **how))
    options = ("--engine", "process", "--timeout", 30, "--steps", 128, "--eval-every", 128, "--eval-episodes", 1)
    inside("train", "tests.cli.cli_envs:Walk", *options, *SMALL)
    assert [(how["engine"], how["timeout"]) for how in seen] == [("process", 30.0)] * 3, "one of them tries the options"


@pytest.mark.skipif(not importlib.util.find_spec("ale_py"), reason="needs vecenv[atari]")
def test_atari_games_are_found_listed_trained_and_evaluated(inside, tmp_path):
    found = json.loads(inside("list", "pong", "--json")[0])["envs"]
    assert {"id": "ALE/Pong-v5", "engine": "ale", "missing": None}.items() <= next(
        one for one in found if one["id"] == "ALE/Pong-v5"
    ).items()
    few = ("--steps", 32, "--envs", 2, "--set", "rollout_steps=8", "minibatch=8", "image_features=8", "epochs=1")
    out, _ = inside("train", "ALE/Pong-v5", *few, "--name", "pong", *FEW, "--json")
    assert json.loads(out)["steps"] == 32
    config = json.loads((tmp_path / "runs/pong/config.json").read_text())
    assert config["make"] == {"preprocessing": "dqn"}
    assert config["config"]["clip_range"] == 0.1
    trainer_obs = np.zeros((4, 84, 84), np.uint8)
    checkpoint = find_checkpoint(str(tmp_path / "runs/pong"))
    source = env_of(checkpoint, None, {}, False)
    assert source.options == {"preprocessing": "dqn"}
    assert load_policy(checkpoint, source, False)(trainer_obs).shape == ()
    assert "did you mean" in inside("train", "ALE/Pongg-v5", code=2)[1]
    for name in ("Pong-v5", "pong", "Pong"):
        assert "did you mean 'ALE/Pong-v5'?" in inside("train", name, code=2)[1]


@pytest.mark.parametrize(
    ("given", "options", "stack"),
    [
        (None, {"preprocessing": "dqn"}, 4),
        ("{'frame_stack': 2}", {"preprocessing": {"frame_stack": 2}}, 2),
        ("False", {}, None),
    ],
)
def test_settings_of_games_fit_what_agents_see_of_them(given, options, stack, monkeypatch):
    class Settled(Exception):
        pass

    def trainer(*arguments):
        raise Settled(*arguments)

    monkeypatch.setattr(_training, "_trainer", trainer)
    with pytest.raises(Settled) as settled:
        _training.new_job(train.Options("ALE/Pong-v5", algo="dqn", preprocessing=given))
    _, source, _, config, made_with, *_ = settled.value.args
    assert (source.options, config.stack, made_with) == (options, stack, options)


@pytest.mark.parametrize("command", ["check", "bench", "play"])
def test_games_have_their_preprocessing_in_every_command(command, inside, monkeypatch):
    found = []

    def env(name, kwargs, preprocessing):
        found.append(preprocessing)
        raise ConfigError("enough")

    monkeypatch.setattr(f"vecenv.cli.{command}.find_env", env)
    inside(command, "ALE/Pong-v5", "--preprocessing", "dqn", code=2)
    inside(command, "ALE/Pong-v5", "--preprocessing", "{'frame_stack': 2}", code=2)
    assert found == ["dqn", {"frame_stack": 2}]
    assert "--preprocessing must be dqn" in inside(command, "ALE/Pong-v5", "--preprocessing", "dpn", code=2)[1]


def test_one_env_of_a_game_and_its_engines_are_those_of_its_preprocessing():
    source = find_env("ALE/Pong-v5", {}, "dqn")
    with closing(source.factory()()) as env:
        assert env.observation_space.shape == (4, 84, 84)
    assert source.refusal("ale") is None
    assert find_env("ALE/Pong-v5", {}, False).refusal("ale") is not None


# --- presets ---------------------------------------------------------------------------------------------------------


def test_every_kernel_and_every_task_has_settings_that_its_trainer_takes():
    assert "Snake-v0" in SHIPPED
    assert set(SHIPPED) | set(WITH_AGENTS) <= set(PRESETS)
    assert set(GYMNASIUM) <= set(PRESETS)
    configs = {"ppo": PPO.Config, "sac": SAC.Config, "dqn": DQN.Config}
    for presets in (*PRESETS.values(), ATARI):
        for algo, preset in presets.items():
            configs[algo](**preset.settings)
            assert preset.steps > 0
    assert presets_for("ALE/Pong-v5") is presets_for("BreakoutNoFrameskip-v4") is ATARI


def test_list_shows_the_settings_of_an_id(inside):
    found = json.loads(inside("list", "Pendulum-v1", "--json")[0])
    assert list(found["presets"]) == ["sac", "ppo"]
    assert found["presets"]["sac"]["gamma"] == 0.98
    out, _ = inside("list", "CartPole-v1")
    assert "settings of `vecenv train CartPole-v1`" in out
    assert "learning_rate=0.002" in " ".join(out.split())
    assert "native code (engine mujoco)" in " ".join(inside("list", "HalfCheetah-v5")[0].split())
    assert "no settings of its own" in inside("list", "CliSlide-v0")[0]


# --- names of envs ---------------------------------------------------------------------------------------------------


def test_an_id_that_a_module_registers_is_an_env(inside, tmp_path):
    inside("train", "tests.cli.cli_envs:CliWalk-v0", "--steps", 128, "--name", "m", *SMALL, *FEW)
    assert len(load_results(tmp_path / "runs" / "m"))
    assert "did you mean" in inside("train", "tests.cli.cli_envs:CliWalk-v7", code=2)[1]


def test_a_bare_file_lists_what_is_in_it(inside, tmp_path):
    (tmp_path / "three.py").write_text(
        "import gymnasium\nfrom tests.cli.cli_envs import Slide, Walk\n\n\nclass Own(Walk):\n    pass\n"
    )
    (tmp_path / "none.py").write_text("x = 1\n")
    err = inside("check", "three.py", code=2)[1]
    assert "name an env of the file: three.py:Slide, three.py:Own" in err
    listed = json.loads(inside("list", "three.py", "--json")[0])["envs"]
    assert [one["id"] for one in listed] == ["three.py:Slide", "three.py:Own"]
    assert "three.py:Own" in inside("list", "three.py")[0]
    assert "none.py has no env class" in inside("train", "./none.py", code=2)[1]
    assert "there is no file missing.py" in inside("play", "missing.py", code=2)[1]


def test_suggestions_only_name_what_works(inside):
    err = inside("train", "Hopper-v6", code=2)[1]
    assert "Hopper-v5" in err
    assert "Hopper-v2" not in err
