"""`vecenv eval`, `play`, `plot`: what was learnt, in tables, pictures and films."""

import json
import os
import pty
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

import vecenv
from vecenv.cli._curves import curve_of, read_episodes
from vecenv.cli._films import _try_gl, choose_gl
from vecenv.cli._sources import find_checkpoint
from vecenv.errors import ConfigError
from vecenv.trainers import PPO


def test_eval_is_what_evaluate_finds(inside, trained, one_thread):
    run, _ = trained
    out, _ = inside("eval", run, "--episodes", 7, "--seeds", 2, "--json")
    trainer = PPO.load(run / "checkpoints" / "step-8192.npz")
    wanted = vecenv.evaluate(trainer.policy, "CartPole-v1", episodes=7, seeds=2)
    trainer.close()
    found = json.loads(out)
    assert [one["return"] for one in found["episodes"]] == wanted.returns.tolist()
    assert found["checkpoint"].endswith("step-8192.npz")


def test_eval_of_scenarios_prints_a_row_for_each_and_writes_files(inside, trained, tmp_path):
    run, _ = trained
    out, _ = inside(
        "eval", run, "--episodes", 4, "--scenarios", "low=-0.05,-0.2", "--csv", "all.csv", "--plot", "eval.png"
    )
    assert out.count("low=") == 2
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 1 + 8
    assert (tmp_path / "eval.png").read_bytes().startswith(b"\x89PNG")
    out, _ = inside("eval", run, "--episodes", 4, "--scenarios", "low=-0.2:-0.05", "--json")
    lows = [one["parameters"]["low"] for one in json.loads(out)["episodes"]]
    assert len(set(lows)) == 4
    assert all(-0.2 <= low <= -0.05 for low in lows)
    assert "range" in inside("eval", run, "--scenarios", "low=-0.2:0", "high=1,2", code=2)[1]


def test_a_checkpoint_that_was_moved_still_knows_its_env(inside, trained, tmp_path):
    run, _ = trained
    shutil.copy(run / "checkpoints" / "step-8192.npz", tmp_path / "agent.npz")
    out, _ = inside("eval", "agent.npz", "--episodes", 2, "--json")
    assert json.loads(out)["env"] == "CartPole-v1"


def test_play_writes_a_gif_of_the_agent(inside, trained, tmp_path):
    run, _ = trained
    out, _ = inside("play", run, "--max-steps", 30, "--out", "a.gif", "--json")
    (episode,) = json.loads(out)["episodes"]
    with Image.open(tmp_path / "a.gif") as film:
        assert film.size == (360, 240)
        first, milliseconds = np.asarray(film.convert("RGB")), 0
        for number in range(film.n_frames):
            film.seek(number)
            milliseconds += film.info["duration"]
        assert milliseconds == pytest.approx(20 * episode["length"], abs=60)  # 50 steps a second
        assert (np.asarray(film.convert("RGB")) != first).any()


def test_play_writes_a_video(inside, trained, tmp_path):
    run, _ = trained
    inside("play", run, "--max-steps", 20, "--out", "a.mp4")
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"


def test_the_same_seed_plays_the_same_episode_that_the_policy_makes(inside, trained, one_thread):
    run, _ = trained
    out, _ = inside("play", run, "--seed", 5, "--episodes", 2, "--out", "a.gif", "--json")
    policy = PPO.load(run / "checkpoints" / "step-8192.npz").policy
    for episode, seed in zip(json.loads(out)["episodes"], (5, 6)):
        env = vecenv.make_env("CartPole-v1")
        obs, total, done = env.reset(seed=seed)[0], 0.0, False
        while not done:
            obs, reward, terminated, truncated, _ = env.step(policy(obs[None])[0])
            total, done = total + reward, terminated or truncated
        assert (episode["seed"], episode["return"]) == (seed, total)


def test_envs_are_played_with_random_actions(inside, tmp_path):
    out, _ = inside("play", "Snake-v0", "--max-steps", 5)
    assert "Snake-v0, random actions" in out
    assert (tmp_path / "Snake-v0.gif").is_file()
    for name in ("Unseen", "Bare"):
        assert "takes no render_mode" in inside("play", f"tests.cli.cli_envs:{name}", code=2)[1]


def test_terminal_frames_are_characters(inside, command):
    out, _ = inside("play", "tests.cli.cli_envs:Walk", "--terminal", "--max-steps", 3)
    assert "@" in out
    assert "▀" not in out
    out = on_a_terminal(command, "play", "tests.cli.cli_envs:Walk", "--terminal", "--max-steps", "3", "--fps", "1000")
    assert "▀" in out
    assert "\x1b[38;2;" in out


def on_a_terminal(command, *arguments):
    """What the command writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environment = {**command.environment, "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "80"}
    environment.pop("NO_COLOR")
    with subprocess.Popen(
        [*command.line, *arguments], cwd=command.directory, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        content = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            content += piece
        assert process.wait(50) == 0, content.decode()
    os.close(ours)
    return content.decode()


def test_a_terminal_sees_bars_with_rate_and_time_left(command):
    out = on_a_terminal(command, "train", "CartPole-v1", "--steps", "20000", "--eval-episodes", "5", "--name", "bar")
    assert "━" in out
    assert re.search(r"\d+ %  [\d.]+k? steps/s  \d+:\d\d left", out)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out)
    assert all(len(line) <= 80 for line in re.split(r"[\r\n]+", plain) if "━" in line)


def test_plain_lines_where_it_is_no_terminal(inside, monkeypatch):
    from vecenv.cli import _screen

    monkeypatch.setattr(_screen, "_FIRST_LINE", 0.0)
    monkeypatch.setattr(_screen, "_LINE_EVERY", 0.0)
    _, err = inside("train", "CartPole-v1", "--steps", 4096, "--eval-episodes", 0, "--name", "lines")
    assert re.search(r"^CartPole-v1: +\d+ %  [\d.]+k? steps/s  \d+:\d\d left  return", err, re.MULTILINE)
    assert "\x1b" not in err
    assert "━" not in err


def test_plot_joins_runs_that_differ_by_their_seeds(inside, tmp_path):
    for seed in range(3):
        options = ("--steps", 4096, "--seed", seed, "--name", f"s{seed}", "--eval-episodes", 0)
        inside("train", "CartPole-v1", *options)
    inside("train", "CartPole-v1", "--algo", "a2c", "--steps", 2048, "--name", "other", "--eval-episodes", 0)
    runs = [tmp_path / "runs" / name for name in ("s0", "s1", "s2", "other")]
    out, _ = inside("plot", *runs, "--out", "all.png", "--json")
    three, one = json.loads(out)["curves"]
    assert (three["runs"], one["runs"]) == (3, 1)
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
    assert len(json.loads(inside("plot", *runs, "--separate", "--json")[0])["curves"]) == 4
    out, _ = inside("plot", *runs)
    assert "CartPole-v1 ppo" in out


def test_a_curve_is_the_mean_of_the_episodes_of_each_stretch(tmp_path):
    lines = "".join(f"{value}.0,10,{value}.5\n" for value in range(200))
    (tmp_path / "monitor.csv").write_text('#{"t_start": 0.0, "env_id": "X"}\nr,l,t\n' + lines)
    curve = curve_of("x", [read_episodes(tmp_path)])
    returns = np.arange(200.0).reshape(20, 10)
    assert np.array_equal(curve.mean, returns.mean(1))
    assert (curve.low < curve.mean).all()
    assert (curve.mean < curve.high).all()
    assert curve.steps[-1] == 1950
    several = curve_of("x", [read_episodes(tmp_path)] * 3)
    assert np.array_equal(several.mean, several.low)
    assert np.array_equal(several.mean, curve.mean)


def test_the_newest_checkpoint_is_the_one_with_the_largest_number(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    for number in (9, 100, 20):
        (tmp_path / "checkpoints" / f"step-{number}.npz").touch()
    assert find_checkpoint(str(tmp_path)).path.name == "step-100.npz"


def test_episodes_of_several_monitor_files_are_in_order_of_time(tmp_path):
    for name, rows in {"0": ["1.0,5,0.1", "3.0,6,0.3"], "1": ["2.0,7,0.2", "4.0,8,0.4"]}.items():
        (tmp_path / f"{name}.monitor.csv").write_text("\n".join(['#{"t_start": 0}', "r,l,t", *rows, ""]))
    episodes = read_episodes(tmp_path)
    assert episodes.returns.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert episodes.steps.tolist() == [5, 12, 18, 26]


def test_episodes_that_are_played_one_after_the_other_have_seeds_that_count_up(inside):
    out, _ = inside("play", "CartPole-v1", "--episodes", 3, "--seed", 5, "--max-steps", 4, "--out", "a.gif", "--json")
    assert [episode["seed"] for episode in json.loads(out)["episodes"]] == [5, 6, 7]


@pytest.mark.parametrize("works", ["egl", "osmesa", None])
def test_without_a_screen_mujoco_draws_by_what_works(monkeypatch, works):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    tried = []

    def trial(name):
        tried.append(name)
        return None if name == works else "ImportError: no library"

    choose_gl("CartPole-v1", trial)
    assert not tried
    if works is None:
        with pytest.raises(ConfigError, match="MUJOCO_GL=egl: ImportError: no library; MUJOCO_GL=osmesa"):
            choose_gl("HalfCheetah-v5", trial)
        return
    choose_gl("HalfCheetah-v5", trial)
    assert os.environ["MUJOCO_GL"] == works
    choose_gl("HalfCheetah-v5", lambda name: pytest.fail("it is set"))
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    for given, words in (
        ("glfw", "MUJOCO_GL=glfw needs a screen, and there is none; set MUJOCO_GL=egl"),
        ("off", "with MUJOCO_GL=off, MuJoCo draws nothing; set"),
        ("foo", "MUJOCO_GL=foo is unknown to MuJoCo; set"),
    ):
        monkeypatch.setenv("MUJOCO_GL", given)
        with pytest.raises(ConfigError, match=words):
            choose_gl("HalfCheetah-v5", lambda name: pytest.fail("it is set"))
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setenv("DISPLAY", ":0")
    choose_gl("HalfCheetah-v5", lambda name: pytest.fail("there is a screen"))


def test_what_is_tried_is_the_real_library(monkeypatch):
    """Whichever way works here, the error of a way that does not is one line."""
    for name in ("egl", "nonsense"):
        error = _try_gl(name)
        assert error is None or (len(error) <= 120 and "\n" not in error)
    assert error is not None


def test_nothing_is_lost_in_a_narrow_terminal(inside, trained, monkeypatch, one_thread):
    monkeypatch.setenv("COLUMNS", "60")
    out, _ = inside("eval", trained[0], "--episodes", 3, "--scenarios", "low=-0.05,-0.1")
    assert max(map(len, out.splitlines())) <= 60
    for head in ("scenario", "seed", "n", "mean", "mean 95 %", "median", "IQM", "IQM 95 %", "length"):
        assert len(re.findall(rf"^ ?{head} (?!95 %)", out, re.MULTILINE)) == 2, head
    assert "low=-0.05" in out
    assert "…" not in out
    monkeypatch.setenv("COLUMNS", "100")
    wide, _ = inside("eval", trained[0], "--episodes", 3)
    assert "mean 95 %" in wide
    assert "IQM 95 %" in wide


def test_plot_merges_only_runs_that_differ_by_nothing_but_the_seed(inside, trained, tmp_path):
    changes = {"a": {}, "b": {"seed": 1}, "c": {"steps": 9999}, "d": {"make": {"on_error": "restart"}}}
    for name, change in changes.items():
        shutil.copytree(trained[0], tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(json.dumps({**config, **change}))
    out, _ = inside("plot", *changes, "--json")
    assert [curve["runs"] for curve in json.loads(out)["curves"]] == [2, 1, 1]


def test_the_table_of_plot_is_not_cut_in_a_narrow_terminal(inside, trained, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    names = "a-run-with-a-very-long-name-of-many-words", "another-run-with-such-a-name"
    for name in names:
        shutil.copytree(trained[0], tmp_path / name)
    out, _ = inside("plot", *names, "--separate")
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 60
    for name in names:
        assert name in "".join(line.split("  ")[0].strip() for line in out.splitlines())


def test_a_run_that_is_named_twice_counts_once(inside, trained):
    for more in ((), ("--separate",)):
        out, _ = inside("plot", trained[0], f"{trained[0]}/", *more, "--json")
        assert [curve["runs"] for curve in json.loads(out)["curves"]] == [1]


def test_runs_that_went_on_stopped_early_or_had_other_libraries_are_lines_of_their_own(inside, trained, tmp_path):
    config, result = (json.loads((trained[0] / f"{name}.json").read_text()) for name in ("config", "result"))
    until, asked = {"steps": 5000, "asked": {"steps": 8192, "until": 400}}, {"steps": 99_999, "until": None}
    changes = {
        "a": ({}, {}),
        "went on": ({"seed": 1}, {"steps": 99_999, "asked": asked}),
        "stopped": ({"seed": 2}, {"steps": 4096, "stopped": True}),
        "other": ({"seed": 3, "versions": {**config["versions"], "numpy": "1.0"}}, {}),
        "until": ({"seed": 4}, until),
        "until too": ({"seed": 5}, {**until, "steps": 6000}),
    }
    for name, (settings, ending) in changes.items():
        shutil.copytree(trained[0], tmp_path / name)
        (tmp_path / name / "config.json").write_text(json.dumps({**config, **settings}))
        (tmp_path / name / "result.json").write_text(json.dumps({**result, **ending}))
    out, _ = inside("plot", *changes, "--json")
    assert [curve["runs"] for curve in json.loads(out)["curves"]] == [1, 1, 1, 1, 2]


def test_a_single_episode_has_no_interval(inside, trained):
    out, _ = inside("eval", trained[0], "--episodes", 1)
    assert re.search(r"CartPole-v1, 1 episode\b", out)
    assert not re.search(r"\d \.\.\. \d", out)
