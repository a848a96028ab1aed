"""`vecenv replay`: what people see and type."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import vecenv
from tests.recording.by_hand import record, reference
from tests.recording.replayed_envs import GlobalNoise, Walk
from vecenv.testing import FaultEnv

HERE = Path(__file__).parent
PATHS = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE.parents[1])])
ACTIONS = [np.int64(number % 3) for number in range(12)]


@pytest.fixture
def broken(tmp_path):
    """A walk that broke at its seventh step."""
    return record(Walk(fails_at=7), reference(Walk, fails_at=7), ACTIONS, seed=3).save(tmp_path / "walk.npz")


def fatal(kind, failure):
    build = reference(FaultEnv, index=1, kind=kind, at=3, length=10**6)
    made = record(FaultEnv(1, length=10**6), build, ACTIONS[:3], seed=4)
    cut = {name: getattr(made, name)[:2] for name in ("reward", "terminated", "truncated")}
    failure = {"phase": "step", "type": "WorkerDied", "message": "", **failure}
    return replace(made, obs=(made.obs[0][:3],), failure=failure, **cut)


def typed(file, *options, lines, code=0):
    """The command in a process of its own, with these lines typed into it."""
    done = subprocess.run(
        [sys.executable, "-m", "vecenv", "replay", str(file), *options],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "PYTHONPATH": PATHS},
        cwd=Path(file).parent,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


# --- what it says ----------------------------------------------------------------------------------------------------


def test_a_failure_is_shown_run_again_and_explained(inside, broken):
    out, err = inside("replay", broken, "--trust")
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines[:4] == [
        "env        tests.recording.replayed_envs:Walk, env 0 of 1, engine sync",
        "arguments  fails_at=7",
        "episode    7 steps, begun with seed 3",
        "failure    ZeroDivisionError in step 7",
    ]
    assert "Traceback (most recent call last):" in lines
    assert lines[-4:] == [
        "",
        "reproduced: ZeroDivisionError in step 7, as recorded",
        "6 steps before it, every bit as recorded",
        f"debug it: vecenv replay {broken} --trust --pdb",
    ]
    assert err == ""


def test_an_episode_without_a_failure_is_replayed(inside, tmp_path):
    path = record(Walk(), reference(Walk), ACTIONS, seed=3).save(tmp_path / "good.npz")
    out, _ = inside("replay", path, "--env", "tests.recording.replayed_envs:Walk")
    assert out.splitlines()[-1] == "replayed: 12 steps, every bit as recorded"
    out, _ = inside("replay", path, "--env", "tests.recording.replayed_envs:Walk", "--kwargs", "length=3", code=1)
    assert "differs: truncated after step 3: True now, False in the recording" in out


def test_hidden_randomness_is_told_with_step_and_field(inside, tmp_path):
    path = record(GlobalNoise(), reference(GlobalNoise), ACTIONS, seed=3).save(tmp_path / "noise.npz")
    out, _ = inside("replay", path, "--trust", code=1)
    assert "differs: obs after step 3: [0] is " in out
    assert "np.random" in out
    found = json.loads(inside("replay", path, "--trust", "--json", code=1)[0])
    assert found["outcome"] == "differs"
    assert (found["difference"]["step"], found["difference"]["field"]) == (3, "obs")


def test_json_has_everything(inside, broken):
    found = json.loads(inside("replay", broken, "--trust", "--json")[0])
    assert (found["outcome"], found["steps"], found["env"]) == ("reproduced", 6, "tests.recording.replayed_envs:Walk")
    assert found["failure"]["type"] == "ZeroDivisionError"
    assert found["recorded"]["failure"]["message"] == "the walk broke at 7"
    assert found["difference"] is None


def test_a_death_is_announced_and_reproduced_without_dying(inside, tmp_path):
    path = fatal("segfault", {"kind": "died", "signal": "SIGSEGV", "exitcode": -11}).save(tmp_path / "death.npz")
    out, err = inside("replay", path, "--trust")
    assert err.strip() == "a death in step 3 (SIGSEGV): the step runs in a copy of this process"
    assert "reproduced: died in step 3 (SIGSEGV), as recorded" in out
    assert "_segfault" in out


def test_a_hang_is_bounded(inside, tmp_path):
    path = fatal("hang", {"kind": "hung", "type": "WorkerTimeout"}).save(tmp_path / "hang.npz")
    out, err = inside("replay", path, "--trust", "--patience", 0.3)
    assert err.strip() == "a hang in step 3: the step runs in a copy of this process, for 0.3 s at most"
    assert "reproduced: hung in step 3, as recorded" in out
    assert "in _hang" in out


def test_other_versions_are_named(inside, tmp_path):
    made = replace(record(Walk(), reference(Walk), ACTIONS, seed=3), versions={"numpy": "1.0.0", "python": "3.1"})
    out, _ = inside("replay", made.save(tmp_path / "old.npz"), "--trust")
    assert f"numpy 1.0.0 (here {np.__version__})" in out


# --- trust and wrong input -------------------------------------------------------------------------------------------


def test_code_that_a_file_names_is_run_only_with_trust(inside, broken):
    out, err = inside("replay", broken, code=2)
    assert "ZeroDivisionError in step 7" in out
    assert "tests.recording.replayed_envs:Walk" in err
    assert "--trust" in err
    assert "--env module:function" in err
    assert (
        "reproduced"
        in inside("replay", broken, "--env", "tests.recording.replayed_envs:Walk", "--kwargs", "fails_at=7")[0]
    )
    out, _ = inside("replay", broken, "--env", "tests.recording.replayed_envs:Walk", code=1)
    assert "not reproduced: nothing failed" in out
    assert out.splitlines()[-1] == "maybe env= / --env makes another env than was recorded (arguments, wrappers)"


def test_modules_beside_the_shell_are_found(command, tmp_path):
    (tmp_path / "my_walks.py").write_text((HERE.parent / "recording" / "replayed_envs.py").read_text())
    build = {**reference(Walk, fails_at=7), "where": "my_walks:Walk"}
    record(Walk(fails_at=7), build, ACTIONS, seed=3).save(tmp_path / "walk.npz")
    done = command("replay", "walk.npz", "--trust")
    assert "reproduced: ZeroDivisionError in step 7" in done.stdout
    assert "debug it: vecenv replay walk.npz --trust --pdb" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["wlak.npz"], "there is no recording 'wlak.npz'; did you mean 'walk.npz'?"),
        (["."], ". is a directory; the newest recording in it is walk.npz"),
        (["empty"], "empty is a directory without recordings"),
        (["text.npz"], "text.npz: the file is no archive"),
        (["walk.npz", "--env", "no_such_module:Walk"], "there is no module 'no_such_module'"),
        (["walk.npz", "--env", "CartPole-v2"], "there is no env 'CartPole-v2'; did you mean"),
        (["walk.npz", "--env", "CartPole-v1"], "this is not the env that was recorded"),
        (["walk.npz", "--kwargs", "length=3"], "--kwargs belong to --env"),
        (["walk.npz", "--pdb", "--json"], "leave --json out"),
        (["walk.npz", "--pdb", "--steps-before", "0"], "--steps-before must be at least 1"),
        (["walk.npz", "--patience", "0"], "--patience must be positive"),
        (["walk.npz", "--video", "film.txt"], "--video must end with .gif or .mp4"),
        (
            ["walk.npz", "--env", "tests.cli.cli_envs:Unseen", "--video", "a.gif"],
            "its constructor takes no render_mode",
        ),
    ],
)
def test_wrong_input_is_told_in_a_line_with_exit_code_2(inside, broken, arguments, told, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("no zip")
    os.utime(tmp_path / "text.npz", (0, 0))
    _, err = inside("replay", *arguments, code=2)
    assert err.startswith(f"vecenv: {told}") or told in err
    assert len(err.splitlines()) == 1


def test_an_env_that_is_not_known_here_is_named(inside, tmp_path):
    build = {"kind": "id", "id": "Nowhere-v0", "kwargs": {}, "wrappers": []}
    path = record(Walk(), build, ACTIONS, seed=3).save(tmp_path / "one.npz")
    assert "there is no env 'Nowhere-v0' here" in inside("replay", path, "--trust", code=2)[1]


# --- the debugger ----------------------------------------------------------------------------------------------------


def test_the_debugger_stops_one_step_before_the_failure(broken):
    out = typed(
        broken,
        "--trust",
        "--pdb",
        lines=["p ('steps', env.unwrapped.steps, int(action), recording.steps)", "env.step(action)", "q"],
    )
    assert "-> return self._awaited(env.step(action))" in out
    assert "('steps', 6, 0, 7)" in out
    assert "*** ZeroDivisionError: the walk broke at 7" in out
    assert "reproduced" not in out


def test_the_debugger_enters_the_env_and_goes_on_to_the_failure(broken):
    out = typed(broken, "--trust", "--pdb", lines=["s", "s", "w", "c"])
    assert "replayed_envs.py" in out
    assert "def step(self, action):" in out
    assert "reproduced: ZeroDivisionError in step 7, as recorded" in out


def test_the_debugger_stops_as_many_steps_before_as_asked(broken, tmp_path):
    out = typed(broken, "--trust", "--pdb", "--steps-before", "3", lines=["p ('at', env.steps)", "c"])
    assert "('at', 4)" in out
    assert "reproduced" in out
    made = fatal("raise", {"kind": "raised", "type": "ValueError", "phase": "reset"})
    nothing = {name: getattr(made, name)[:0] for name in ("reward", "terminated", "truncated")}
    build = reference(FaultEnv, index=1, kind="raise", where="reset")
    made = replace(made, build=build, steps=0, obs=(made.obs[0][:0],), actions=(made.actions[0][:0],), **nothing)
    out = typed(made.save(tmp_path / "reset.npz"), "--trust", "--pdb", lines=["p how", "env.reset(**how)", "q"])
    assert "-> return self._awaited(env.reset(**how))" in out
    assert "{'seed': 4" in out
    assert "*** ValueError: boom in env 1" in out


def test_the_debugger_enters_kernels_which_run_in_python(tmp_path):
    envs = vecenv.make("CartPole-v1", 2)
    envs.reset(seed=1)
    columns = {name: np.array(column[1]) for name, column in envs.engine.get_rows(np.arange(2)).items()}
    obs, _, _, _, _ = envs.step(np.array([0, 1]))
    envs.close()
    made = record(vecenv.make_env("CartPole-v1"), {}, [np.int64(1)], seed=2)
    assert made.obs[0][1].tobytes() == obs[1].tobytes()
    build = {
        "kind": "kernel",
        "id": "CartPole-v1",
        "where": None,
        "params": {},
        "max_episode_steps": 500,
        "wrappers": [],
    }
    made = replace(made, build=build, start={"kind": "kernel-state", "columns": columns}, engine="compiled")
    lines = ["import vecenv.envs.cartpole", "b vecenv.envs.cartpole.CartPole.step", "c", "p ('pole', s.theta)", "c"]
    out = typed(made.save(tmp_path / "pole.npz"), "--pdb", lines=lines)
    assert f"('pole', {columns['S_theta'].item()})" in out
    assert "replayed: 1 step, every bit as recorded" in out


# --- films -----------------------------------------------------------------------------------------------------------


def columns_lit(frame):
    """Where the walker is: the columns that are bright."""
    return np.flatnonzero(frame.mean(axis=(0, 2)) > 128).tolist()


def wanted_columns(made):
    return [int(np.clip(20 + 3 * x, 0, 39)) for x in made.obs[0][:, 0]]


def test_a_gif_shows_the_episode(inside, broken, tmp_path):
    out, _ = inside("replay", broken, "--trust", "--video", "walk.gif")
    assert "written to walk.gif" in out
    wanted = wanted_columns(vecenv.Recording.load(broken))
    with Image.open(tmp_path / "walk.gif") as film:
        assert film.size == (40, 20)
        shown, durations = [], []
        for number in range(film.n_frames):
            film.seek(number)
            shown.append(columns_lit(np.asarray(film.convert("RGB"))))
            durations.append(film.info["duration"])
    assert sum(durations) == 100 * len(wanted)  # ten frames a second; equal ones may be joined
    seen = [[column] for place, column in enumerate(wanted) if place == 0 or column != wanted[place - 1]]
    assert [one for place, one in enumerate(shown) if place == 0 or one != shown[place - 1]] == seen


def test_a_video_shows_the_episode(inside, broken, tmp_path):
    import imageio_ffmpeg

    inside("replay", broken, "--trust", "--video", "walk.mp4")
    film = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(tmp_path / "walk.mp4")]
    done = subprocess.run(
        [*film, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, timeout=50, check=True
    )
    frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, 20, 40, 3)
    wanted = wanted_columns(vecenv.Recording.load(broken))
    assert b"10 fps" in done.stderr
    assert len(frames) == len(wanted) == 7
    for frame, column in zip(frames, wanted, strict=True):
        assert np.argmax(frame.mean(axis=(0, 2))) == pytest.approx(column, abs=1)  # the encoder blurs


def test_a_reset_that_fails_leaves_no_film(inside, tmp_path):
    path = record(Walk(), reference(Walk), [], seed=3, options={"shift": "far"}).save(tmp_path / "reset.npz")
    out, _ = inside("replay", path, "--trust", "--video", "none.gif")
    assert "reproduced: TypeError in the reset, as recorded" in out
    assert "no frame: it failed in the reset" in out
    assert "written to" not in out
    assert json.loads(inside("replay", path, "--trust", "--video", "none.gif", "--json")[0])["video"] is None
    assert not (tmp_path / "none.gif").exists()


def test_json_names_the_film(inside, broken):
    assert json.loads(inside("replay", broken, "--trust", "--video", "a.gif", "--json")[0])["video"] == "a.gif"


def test_a_film_of_mujoco_is_drawn_by_what_works_without_a_screen(inside, monkeypatch, tmp_path):
    """The way to draw is chosen before the env is made, as for `vecenv play`."""
    with vecenv.make("InvertedPendulum-v5", 1, engine="sync", record="last-episode") as envs:
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
        path = envs.recording(0).save(tmp_path / "pendulum.npz")
    chosen = []
    monkeypatch.setattr("vecenv.cli.replay.choose_gl", chosen.append)
    monkeypatch.setattr("gymnasium.envs.mujoco.MujocoEnv.render", lambda env: np.zeros((8, 8, 3), np.uint8))
    inside("replay", path, "--video", "a.gif")
    assert chosen == ["InvertedPendulum-v5"]
