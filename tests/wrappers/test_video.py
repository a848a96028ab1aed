"""Videos: what is in the files."""

import os
import re
import subprocess
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests import twins
from vecenv.errors import ClosedError, ConfigError, MissingExtra, SpaceError, UnknownRow
from vecenv.wrappers import HumanRendering, RecordVideo
from vecenv.wrappers._record_video import cubes_and_thousands
from vecenv.wrappers._video import VideoFile, tile

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")


def frames_of(path):
    """Decode a video: uint8 [frames, height, width, 3], and its frame rate."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    run = subprocess.run(command, capture_output=True, check=True)
    found = re.search(rb"Video:.*?(\d\d+)x(\d\d+).*?([\d.]+) fps", run.stderr)
    width, height, fps = int(found[1]), int(found[2]), float(found[3])
    return np.frombuffer(run.stdout, np.uint8).reshape(-1, height, width, 3), fps


def plain(colour, height=32, width=48):
    return np.broadcast_to(np.array(colour, np.uint8), (height, width, 3)).copy()


RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def is_colour(picture, colour):
    return np.abs(picture.reshape(-1, 3).mean(0) - colour).max() < 20  # lossy, and colours are stored at half size


def test_frames_come_back_in_order_with_size_and_rate(tmp_path):
    with VideoFile(tmp_path / "new" / "a.mp4", 20) as video:
        for colour in (RED, GREEN, BLUE):
            video.write(plain(colour))
    assert video.frames == 3
    frames, fps = frames_of(video.path)
    assert frames.shape == (3, 32, 48, 3)
    assert fps == 20
    for frame, colour in zip(frames, (RED, GREEN, BLUE), strict=True):
        assert is_colour(frame, colour)


def test_odd_sizes_get_a_black_line(tmp_path):
    with VideoFile(tmp_path / "a.mp4", 30) as video:
        video.write(plain((255, 255, 255), 33, 47))
    frames, _ = frames_of(video.path)
    assert frames.shape == (1, 34, 48, 3)
    assert frames[0, :32, :46].mean() > 240
    assert frames[0, 33:].mean() < 30


def test_a_slice_of_an_array_is_a_frame(tmp_path):
    wide = np.concatenate([plain(RED), plain(BLUE)], axis=1)
    with VideoFile(tmp_path / "a.mp4", 30) as video:
        video.write(wide[:, 48:])
    assert is_colour(frames_of(video.path)[0][0], BLUE)


def test_no_frames_no_file_and_close_twice(tmp_path):
    video = VideoFile(tmp_path / "a.mp4", 30)
    video.close()
    video.close()
    assert not video.path.exists()
    with pytest.raises(ClosedError):
        video.write(plain(RED))


@pytest.mark.parametrize(
    "frame",
    [plain(RED, 34), plain(RED).astype(np.float32), plain(RED)[..., :1], [[1]], None],
    ids=["size", "dtype", "channels", "list", "none"],
)
def test_a_wrong_frame_says_so_and_leaves_the_video_open(tmp_path, frame):
    with VideoFile(tmp_path / "a.mp4", 30) as video:
        video.write(plain(RED))
        with pytest.raises(SpaceError, match="frame"):
            video.write(frame)
        video.write(plain(RED))
    assert len(frames_of(video.path)[0]) == 2


def test_an_encoder_that_fails_says_why(tmp_path):
    video = VideoFile(tmp_path / "a.no_such_format", 30)
    with pytest.raises(OSError, match=r"a\.no_such_format"):  # noqa: PT012  # it may notice late
        for _ in range(100):
            video.write(plain(RED, 400, 600))
        video.close()
    video.close()


def test_missing_encoder_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtra, match=r"vecenv\[video\]"):
        VideoFile(tmp_path / "a.mp4", 30)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 9, 12])
def test_tile_is_the_grid_of_sb3(count):
    from stable_baselines3.common.vec_env.base_vec_env import tile_images

    frames = np.random.default_rng(0).integers(0, 256, (count, 4, 6, 3), np.uint8)
    np.testing.assert_array_equal(tile(list(frames)), tile_images(list(frames)))


# --- RecordVideo ------------------------------------------------------------------------------------------------------


class Painter(gymnasium.Env):
    """Paints a grey that is 40 times the steps of its episode; an episode has five steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode="rgb_array", length=5):
        self.render_mode, self.length = render_mode, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if action == 1:
            raise RuntimeError("broken")
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self):
        return plain([40 * self.steps] * 3, 16, 16)


def greys(path):
    """What each frame shows: the steps of the episode."""
    frames, _ = frames_of(path)
    return np.round(frames.mean(axis=(1, 2, 3)) / 40).astype(int).tolist()


def painters(mode="next-step", num_envs=1, engine="sync", **kwargs):
    return twins.make(engine, Painter, num_envs, autoreset=mode, **kwargs)


def play(envs, steps):
    envs.reset(seed=0)
    for _ in range(steps):
        *_, terminated, truncated, _ = envs.step(np.zeros(envs.num_envs, np.int64))
        if envs.autoreset_mode is AutoresetMode.DISABLED and (terminated | truncated).any():
            envs.reset(options={"reset_mask": terminated | truncated})


@pytest.mark.parametrize("engine", ["sync", "process"])
@pytest.mark.parametrize(
    ("mode", "steps", "last"), [("next-step", 14, 5), ("disabled", 12, 5), ("same-step", 12, 4)], ids=str
)
def test_videos_of_episodes_end_with_the_terminal_frame_where_it_can_be_drawn(tmp_path, engine, mode, steps, last):
    envs = RecordVideo(painters(mode, engine=engine), tmp_path / "new", episode_trigger=lambda episode: episode != 1)
    play(envs, steps)
    assert envs.recording
    envs.close()
    assert not envs.recording
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["rl-video-episode-0.mp4", "rl-video-episode-2.mp4"]
    assert greys(tmp_path / "new" / names[0]) == list(range(last + 1))
    assert greys(tmp_path / "new" / names[1]) == [0, 1, 2]  # closed half way
    assert frames_of(tmp_path / "new" / names[0])[1] == 20


def test_videos_of_steps_have_their_length_and_name(tmp_path):
    envs = RecordVideo(
        painters(), tmp_path, step_trigger=lambda step: step in (1, 7), video_length=3, name_prefix="x", fps=7
    )
    play(envs, 12)
    envs.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-step-1.mp4", "x-step-7.mp4"]
    assert greys(tmp_path / "x-step-1.mp4") == [2, 3, 4, 5]
    assert greys(tmp_path / "x-step-7.mp4") == [2, 3, 4, 5]
    assert frames_of(tmp_path / "x-step-1.mp4")[1] == 7


def test_a_grid_shows_the_chosen_envs_in_order(tmp_path):
    envs = RecordVideo(painters(num_envs=6), tmp_path, envs=[4, 1, 2])
    envs.reset(seed=0)
    envs.step(np.zeros(2, np.int64), np.array([1, 2]))
    envs.step(np.zeros(1, np.int64), np.array([2]))
    envs.step(np.zeros(1, np.int64), np.array([5]))  # not in the picture: no frame
    envs.close()
    frames, _ = frames_of(tmp_path / "rl-video-episode-0.mp4")
    assert frames.shape == (3, 32, 32, 3)
    quarters = np.round(frames.reshape(3, 2, 16, 2, 16, 3).mean(axis=(2, 4, 5)) / 40)
    np.testing.assert_array_equal(quarters[-1], [[0, 1], [2, 0]])


def test_an_episode_is_one_of_the_first_env_in_the_picture(tmp_path):
    envs = RecordVideo(painters(num_envs=2), tmp_path, episode_trigger=lambda episode: True, envs=[1, 0])
    envs.reset(seed=0)
    for _ in range(7):
        envs.step(np.zeros(1, np.int64), np.array([1]))
    envs.close()
    assert len(list(tmp_path.iterdir())) == 2


def test_an_error_of_an_env_finishes_the_video(tmp_path):
    envs = RecordVideo(painters(), tmp_path)
    play(envs, 2)
    with pytest.raises(RuntimeError, match="broken"):
        envs.step(np.array([1]))
    assert not envs.recording
    assert greys(tmp_path / "rl-video-episode-0.mp4") == [0, 1, 2]
    envs.close()


def test_frames_are_taken_when_nobody_is_running(tmp_path):
    envs = RecordVideo(painters(num_envs=2, engine="process"), tmp_path)
    envs.reset(seed=0)
    envs.send(np.zeros(2, np.int64))
    envs.recv(1)
    envs.recv(1)
    envs.close()
    assert len(greys(tmp_path / "rl-video-episode-0.mp4")) == 2


def test_default_schedule_is_gymnasium_s():
    wanted = [
        number for number in range(3001) if number in (0, 1, 8, 27, 64, 125, 216, 343, 512, 729, 1000, 2000, 3000)
    ]
    assert [number for number in range(3001) if cubes_and_thousands(number)] == wanted


def test_bad_arguments_are_named_and_nothing_is_made(tmp_path, monkeypatch):
    envs = painters(num_envs=2)
    with pytest.raises(ConfigError, match="each once"):
        RecordVideo(envs, tmp_path / "a", envs=[0, 0])
    with pytest.raises(UnknownRow, match="2 envs"):
        RecordVideo(painters(num_envs=2), tmp_path / "a", envs=[2])
    with pytest.raises(ConfigError, match="render_mode"):
        RecordVideo(twins.make("sync", "CartPole-v1", 1), tmp_path / "a")
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtra, match=r"vecenv\[video\]"):
        RecordVideo(painters(), tmp_path / "a")
    assert not (tmp_path / "a").exists()


# --- HumanRendering ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, (64, 48)])
def test_a_window_shows_the_grid(monkeypatch, size):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    envs = HumanRendering(painters(num_envs=3), screen_size=size)
    assert envs.render_mode == "human"
    assert "human" in envs.metadata["render_modes"]
    envs.reset(seed=0)
    envs.step(np.zeros(2, np.int64), np.array([1, 2]))
    window = pygame.display.get_surface()
    width, height = window.get_size()
    assert (width, height) == (size or (32, 32))
    corners = [(width // 4, height // 4), (3 * width // 4, height // 4), (width // 4, 3 * height // 4)]
    assert [window.get_at(corner)[0] for corner in corners] == [0, 40, 40]
    assert envs.render() is None
    envs.close()
    envs.close()
    assert not pygame.display.get_init()


def test_a_window_needs_frames_and_pygame(monkeypatch):
    with pytest.raises(ConfigError, match="render_mode"):
        HumanRendering(twins.make("sync", "CartPole-v1", 1))
    monkeypatch.setitem(__import__("sys").modules, "pygame", None)
    with pytest.raises(MissingExtra, match=r"vecenv\[render\]"):
        HumanRendering(painters())


@pytest.mark.parametrize("closes", [True, False])
def test_a_forked_child_neither_writes_to_a_video_nor_keeps_it_open(monkeypatch, tmp_path, closes):
    monkeypatch.setattr("vecenv.wrappers._video._PATIENCE", 20.0)
    video = VideoFile(tmp_path / "a.mp4", 20)
    video.write(plain(RED, 16, 16))
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: fork in a process with threads
        child = os.fork()
    if child == 0:
        try:
            os.close(writer)
            if closes:
                video.close()
            os.read(reader, 1)
        finally:
            os._exit(0)
    try:
        video.write(plain(BLUE, 16, 16))
        video.close()
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
    frames, _ = frames_of(video.path)
    assert [is_colour(frame, colour) for frame, colour in zip(frames, (RED, BLUE), strict=True)] == [True, True]
