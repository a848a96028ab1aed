"""Videos of the envs, encoded while they run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import logger

from vecenv.errors import ConfigError, VecenvError
from vecenv.sb3._final_frames import at_envs, take, unwatch, watch
from vecenv.sb3.base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper, registered
from vecenv.wrappers._video import VideoFile, tile


@registered
class VecVideoRecorder(VecEnvWrapper):
    """Writes MP4 files of what the envs show, one frame per step. No frame is kept in memory.

    A video that a step triggered begins with the frame of that moment and has one for each of `video_length` steps; it
    is `{name_prefix}-step-{first}-to-step-{last}.mp4`. One that an episode triggered has all frames of that episode of
    the first recorded env; it is `{name_prefix}-episode-{number}.mp4`.

    Where an episode ends, the frame is its last one, not the first of the next episode. (Around vector envs of other
    libraries it is whatever they render.)

    Args:
        venv: to be wrapped; its render mode is "rgb_array".
        video_folder: is made if it is missing.
        record_video_trigger: called with the number of steps so far whenever nothing is being recorded, also after a
            reset; true starts a video.
        video_length: steps of a video that a step triggered.
        name_prefix: of the files.
        episode_trigger: called with the number of episodes that the first recorded env has completed, whenever one
            begins; true records it.
        env_ids: envs to record, side by side; None is all of them.

    Attributes:
        recording: whether a video is being written.
        video_path: of the latest video.
        step_id: steps so far.

    Raises:
        MissingExtra: imageio-ffmpeg is not installed.
    """

    video_name: str
    video_path: str

    def __init__(
        self,
        venv: VecEnv,
        video_folder: str | os.PathLike[str],
        record_video_trigger: Callable[[int], bool] | None = None,
        video_length: int = 200,
        name_prefix: str = "rl-video",
        *,
        episode_trigger: Callable[[int], bool] | None = None,
        env_ids: Sequence[int] | None = None,
    ) -> None:
        super().__init__(venv)
        assert self.render_mode == "rgb_array", f"The render_mode must be 'rgb_array', not {self.render_mode}"
        if record_video_trigger is None and episode_trigger is None:
            raise ConfigError("pass record_video_trigger or episode_trigger, or nothing is ever recorded")
        self.metadata = _metadata(venv)
        self.frames_per_sec = self.metadata.get("render_fps") or 30
        self.video_folder = os.path.abspath(video_folder)
        os.makedirs(self.video_folder, exist_ok=True)
        self.record_video_trigger = record_video_trigger
        self.episode_trigger = episode_trigger
        self.video_length = video_length
        self.name_prefix = name_prefix
        self.env_ids = list(range(self.num_envs)) if env_ids is None else list(env_ids)
        if not self.env_ids or not all(0 <= row < self.num_envs for row in self.env_ids):
            raise ConfigError(f"env_ids must be some of 0 ... {self.num_envs - 1}, got {self.env_ids}")
        self.step_id = 0
        self.episode_id = 0
        self._end: int | None = 0
        """Step after which the video is complete; None: when the episode ends."""
        # It makes no file without frames, and raises now if the encoder is missing.
        self._file = VideoFile(os.path.join(self.video_folder, "none.mp4"), self.frames_per_sec)
        self._file.close()
        self.recording = False

    def reset(self) -> VecEnvObs:
        """Begin an episode in every env. A video of an episode ends here; one of steps continues with the next step."""
        obs = self.venv.reset()
        if self.recording and self._end is None:
            self._end_video()
        self._start_if_triggered(episode_began=not self.recording)
        return obs

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step and record it."""
        obs, rewards, dones, infos = self.venv.step_wait()
        self.step_id += 1
        ended = bool(dones[self.env_ids[0]])
        self.episode_id += ended
        if not self.recording:
            self._start_if_triggered(episode_began=ended)
            return obs, rewards, dones, infos
        self._write(self._images(dones))
        if self.recording and (ended if self._end is None else self.step_id >= self._end):
            self._end_video()
            if ended and self._end is None:
                self._start_if_triggered(episode_began=True)
        return obs, rewards, dones, infos

    def close(self) -> None:
        """Close the envs and complete the video that is being written."""
        try:
            super().close()
        finally:  # after the envs: another thread may be writing a frame
            if self.recording:
                self._end_video()
            self._file.close()  # an interrupt may have kept `_end_video` from it

    def _start_if_triggered(self, episode_began: bool) -> None:
        if self.record_video_trigger is not None and self.record_video_trigger(self.step_id):
            last = self.step_id + self.video_length
            self._begin_video(f"step-{self.step_id}-to-step-{last}", last)
        elif episode_began and self.episode_trigger is not None and self.episode_trigger(self.episode_id):
            self._begin_video(f"episode-{self.episode_id}", None)

    def _begin_video(self, name: str, end: int | None) -> None:
        if self.recording:
            self._end_video()
        self.video_name = f"{self.name_prefix}-{name}.mp4"
        self.video_path = os.path.join(self.video_folder, self.video_name)
        self._end = end
        self._file = VideoFile(self.video_path, self.frames_per_sec)
        self.recording = True
        at_envs(self.venv, self.env_ids, watch)
        self._write(self._images())

    def _write(self, images: Sequence[Any]) -> None:
        """Add a frame. If that fails, the video ends with the frames before it."""
        strange = [type(image).__name__ for image in images if not isinstance(image, np.ndarray)]
        if strange:
            self._end_video()
            logger.warn(f"Recording stopped: envs should show an array, these returned {strange}.")
            return
        try:
            self._file.write(tile(images))
        except BaseException:
            self._end_video()
            raise

    def _end_video(self) -> None:
        self.recording = False
        self._file.close()
        with contextlib.suppress(VecenvError):  # the envs are closed
            at_envs(self.venv, self.env_ids, unwatch)

    def _images(self, dones: np.ndarray | None = None) -> list[Any]:
        """Frames of the recorded envs; where `dones`, the last frame of the episode."""
        images = self.venv.get_images()
        ended = [] if dones is None else [row for row in self.env_ids if dones[row]]
        pairs = zip(ended, at_envs(self.venv, ended, take), strict=False)
        finals = {row: frame for row, frame in pairs if frame is not None}
        return [finals.get(row, images[row]) for row in self.env_ids]


def _metadata(venv: VecEnv) -> dict[str, Any]:
    try:
        return venv.get_attr("metadata")[0]
    except AttributeError:
        return venv.metadata
