"""Videos: what is in the files."""

import re
import subprocess

import imageio_ffmpeg
import numpy as np
import pytest

from vecenv.errors import ClosedError, MissingExtra, SpaceError
from vecenv.wrappers._video import VideoFile, tile


def frames_of(path):
    """Decode a video: uint8 [frames, height, width, 3], and its frame rate."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    run = subprocess.run(command, capture_output=True, check=True)
    told = re.search(rb"Video:.*?(\d\d+)x(\d\d+).*?([\d.]+) fps", run.stderr)
    width, height, fps = int(told[1]), int(told[2]), float(told[3])
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
    with pytest.raises(OSError, match="a.no_such_format"):  # noqa: PT012  # it may notice late
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
