"""VecVideoRecorder: files are decoded, and frames tell which env and step they are of."""

import subprocess

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from gymnasium import spaces

from vecenv.errors import ConfigError
from vecenv.sb3.dummy_vec_env import DummyVecEnv
from vecenv.sb3.subproc_vec_env import SubprocVecEnv
from vecenv.sb3.vec_video_recorder import VecVideoRecorder

SIZE = 32
LEVEL = 20
"""Grey of one step; videos are lossy, but far less than this."""


class Grey(gymnasium.Env):
    """Shows how many steps its episode has: grey, `LEVEL` brighter every step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    observation_space = spaces.Box(0, 1000, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length=4, render_mode="rgb_array"):
        self.length, self.render_mode = length, render_mode

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self):
        return np.full((SIZE, SIZE, 3), self.steps % 13 * LEVEL, np.uint8)


def venv_of(*lengths):
    return DummyVecEnv([lambda length=length: Grey(length) for length in lengths])


def steps_in(path, columns=1, rows=1):
    """What a video shows: for each frame, the number of steps in each cell of the grid."""
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        str(path),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    frames = np.frombuffer(raw, np.uint8).reshape(-1, rows * SIZE, columns * SIZE, 3)
    cells = frames.reshape(-1, rows, SIZE, columns, SIZE, 3)[:, :, 8:-8, :, 8:-8].mean(axis=(2, 4, 5))
    steps = np.round(cells / LEVEL).astype(int).reshape(-1, rows * columns).tolist()
    return [frame[0] for frame in steps] if rows * columns == 1 else steps


def run(venv, count):
    for _ in range(count):
        venv.step(np.zeros(venv.num_envs, np.int64))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_video_of_steps_has_the_name_and_number_of_frames_of_stable_baselines3(tmp_path):
    venv = VecVideoRecorder(venv_of(100), str(tmp_path / "new"), lambda step: step % 7 == 0, 5, name_prefix="agent")
    venv.reset()
    run(venv, 13)
    assert not venv.recording
    assert names(tmp_path / "new") == ["agent-step-0-to-step-5.mp4", "agent-step-7-to-step-12.mp4"]
    assert steps_in(tmp_path / "new/agent-step-0-to-step-5.mp4") == [0, 1, 2, 3, 4, 5]
    assert steps_in(venv.video_path) == [7, 8, 9, 10, 11, 12]
    venv.close()


def test_the_terminal_frame_is_in_the_video(tmp_path):
    venv = VecVideoRecorder(venv_of(4), tmp_path, lambda step: step == 0, 10)
    venv.reset()
    run(venv, 10)
    venv.close()
    assert steps_in(venv.video_path) == [0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2]


def test_terminal_frames_come_from_worker_processes(tmp_path):
    inner = SubprocVecEnv([lambda length=length: Grey(length) for length in (3, 9)])
    venv = VecVideoRecorder(inner, tmp_path, lambda step: step in (0, 6), 4)
    venv.reset()
    run(venv, 5)
    assert steps_in(venv.video_path, 1, 2) == [[0, 0], [1, 1], [2, 2], [3, 3], [1, 4]]
    run(venv, 3)
    venv.close()
    assert steps_in(venv.video_path, 1, 2) == [[0, 6], [1, 7], [2, 8]]


def test_envs_are_as_they_were_when_nothing_is_recorded(tmp_path):
    inner = venv_of(4)
    venv = VecVideoRecorder(inner, tmp_path, lambda step: step == 0, 2)
    venv.reset()
    assert "step" in vars(inner.envs[0])
    run(venv, 2)
    assert set(vars(inner.envs[0])) == {"length", "render_mode", "steps"}
    venv.close()


def test_videos_of_episodes_are_whole_episodes_of_the_first_env(tmp_path):
    venv = VecVideoRecorder(venv_of(9, 3), tmp_path, episode_trigger=lambda number: number != 1, env_ids=[1])
    venv.reset()
    run(venv, 9)
    venv.close()
    assert names(tmp_path) == [f"rl-video-episode-{number}.mp4" for number in (0, 2, 3)]
    assert steps_in(tmp_path / "rl-video-episode-0.mp4") == [0, 1, 2, 3]
    assert steps_in(tmp_path / "rl-video-episode-2.mp4") == [0, 1, 2, 3]
    assert steps_in(tmp_path / "rl-video-episode-3.mp4") == [0]


def test_several_envs_are_a_grid(tmp_path):
    venv = VecVideoRecorder(venv_of(2, 9, 3, 9), tmp_path, lambda step: step == 0, 3)
    venv.reset()
    run(venv, 3)
    assert steps_in(venv.video_path, 2, 2) == [[0] * 4, [1] * 4, [2] * 4, [1, 3, 3, 3]]
    chosen = VecVideoRecorder(venv.venv, tmp_path / "chosen", lambda step: step == 0, 2, env_ids=[3, 0])
    chosen.reset()
    run(chosen, 3)
    assert steps_in(chosen.video_path, 1, 2) == [[0, 0], [1, 1], [2, 2]]
    venv.close()


def test_a_partial_video_is_complete_after_close_and_a_second_reset_begins_anew(tmp_path):
    venv = VecVideoRecorder(venv_of(100), tmp_path, lambda step: step == 0, 50)
    venv.reset()
    venv.reset()
    run(venv, 3)
    venv.reset()
    run(venv, 2)
    assert venv.recording
    venv.close()
    venv.close()
    assert steps_in(venv.video_path) == [0, 1, 2, 3, 1, 2]


def test_frames_are_not_kept(tmp_path):
    """Memory of a long video is bounded: no frame is referred to once it is written."""
    import gc
    import weakref

    made = []

    class Frame(np.ndarray):
        pass

    class Tracked(Grey):
        def render(self):
            frame = super().render().view(Frame)
            made.append(weakref.ref(frame))
            return frame

    venv = VecVideoRecorder(DummyVecEnv([lambda: Tracked(1000)]), tmp_path, lambda step: step == 0, 1000)
    venv.reset()
    run(venv, 50)
    gc.collect()
    assert len(made) == 51
    assert sum(frame() is not None for frame in made) <= 1
    venv.close()


def test_envs_that_show_nothing_end_the_video_with_a_warning(tmp_path):
    class Blind(Grey):
        def render(self):
            return super().render() if self.steps < 2 else None

    venv = VecVideoRecorder(DummyVecEnv([Blind]), tmp_path, lambda step: step == 0, 10)
    venv.reset()
    with pytest.warns(UserWarning, match="Recording stopped"):
        run(venv, 2)
    assert not venv.recording
    assert steps_in(venv.video_path) == [0, 1]
    venv.close()


def test_what_cannot_be_recorded_is_refused(tmp_path):
    with pytest.raises(AssertionError, match="render_mode must be 'rgb_array'"):
        VecVideoRecorder(DummyVecEnv([lambda: Grey(render_mode=None)]), tmp_path, lambda _: True)
    with pytest.raises(ConfigError, match="trigger"):
        VecVideoRecorder(venv_of(3), tmp_path)
    with pytest.raises(ConfigError, match="env_ids"):
        VecVideoRecorder(venv_of(3), tmp_path, lambda _: True, env_ids=[1])
