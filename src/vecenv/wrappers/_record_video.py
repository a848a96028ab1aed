"""Videos of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np

from vecenv._front.exchange import Exchange
from vecenv.errors import ConfigError, PendingError, UnknownRow
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._video import VideoFile, check_draws, tile
from vecenv.wrappers._wrapper import Wrapper


class RecordVideo(Wrapper):
    """Videos of some of the episodes, of one env or of many in a grid. No frame is kept in memory.

    An episode is one of the first env recorded: its video begins with the first frame and ends with the terminal one.
    In same-step mode the env has been reset by the time a frame can be drawn, so the video ends one frame earlier;
    use "next-step" or "disabled" to see the terminal frame. After `recv` a frame is taken only if no env is still
    running.

    A video that was not finished is closed properly by `close()` and by an error of the envs.

    Args:
        env: a vector env with render_mode="rgb_array".
        video_folder: where; it is created if it is missing. Files are named `{name_prefix}-episode-{episode}.mp4` or
            `{name_prefix}-step-{step}.mp4`.
        episode_trigger: of the number of an episode, from 0: whether to record it. Default, if there is no
            step_trigger: Gymnasium's, the cubes up to 1000 and then every thousandth.
        step_trigger: of the number of a step, from 0: whether to begin a video with it.
        video_length: steps of a video; 0: until the episode ends.
        name_prefix: of the file names.
        fps: frames per second; default: `render_fps` of the envs' metadata, or 30.
        envs: which ones: "all", or their ids in the order of the grid.

    Raises:
        MissingExtra: imageio-ffmpeg is not installed.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        video_folder: str | Path,
        episode_trigger: Callable[[int], bool] | None = None,
        step_trigger: Callable[[int], bool] | None = None,
        video_length: int = 0,
        name_prefix: str = "rl-video",
        fps: float | None = None,
        envs: Literal["all"] | Sequence[int] = "all",
    ) -> None:
        self._video: VideoFile | None = None
        super().__init__(env, Transform())
        check_draws(env, "RecordVideo")
        if episode_trigger is None and step_trigger is None:
            episode_trigger = cubes_and_thousands
        self.folder = Path(video_folder).absolute()
        self.fps = self.metadata.get("render_fps") or 30 if fps is None else fps
        self.envs = _checked(envs, self.num_envs)
        self._episode_trigger, self._step_trigger = episode_trigger, step_trigger
        self._video_length, self._name_prefix = video_length, name_prefix
        self._episode, self._step = -1, -1
        VideoFile(self.folder / "probe.mp4", self.fps).close()  # raises now if the encoder is missing

    @property
    def recording(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  # it is Gymnasium's
        """Whether a video is being written. Recordings of episodes are `envs.unwrapped.recording(row)`."""
        return self._video is not None

    def start_recording(self, name: str) -> None:
        """Begin a video, called `name`, with the next frame. A video that is being written ends."""
        self.stop_recording()
        self._video = VideoFile(self.folder / f"{name}.mp4", self.fps)

    def stop_recording(self) -> None:
        """Finish the video that is being written, if there is one."""
        video, self._video = self._video, None
        if video is not None:
            video.close()

    def close(self, **kwargs: Any) -> None:
        """Close the envs and finish the video."""
        try:
            super().close(**kwargs)
        finally:  # after the envs: another thread may be writing a frame
            self.stop_recording()

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        return self._recorded(super()._exchange_reset, seed, options)

    def _exchange_step(self, actions: Any, env_ids: Any) -> Exchange:
        return self._recorded(super()._exchange_step, actions, env_ids, step=True)

    def _exchange_recv(
        self, min_envs: int | None, timeout: float | None, max_envs: int | None = None, until: float | None = None
    ) -> Exchange:
        return self._recorded(super()._exchange_recv, min_envs, timeout, max_envs, until, step=True)

    def _recorded(self, call: Callable[..., Exchange], *arguments: Any, step: bool = False) -> Exchange:
        try:
            exchange = call(*arguments)
        except BaseException:
            self.stop_recording()
            raise
        self._step += step
        self._notice(exchange, step)
        return exchange

    def _notice(self, exchange: Exchange, step: bool) -> None:
        """Begin and end videos, and take a frame."""
        if exchange.began[exchange.rows == self.envs[0]].any():
            self._episode += 1
            if self._video_length == 0:
                self.stop_recording()
            if self._episode_trigger is not None and self._episode_trigger(self._episode):
                self.start_recording(f"{self._name_prefix}-episode-{self._episode}")
        if step and self._step_trigger is not None and self._step_trigger(self._step):
            self.start_recording(f"{self._name_prefix}-step-{self._step}")
        if self._video is not None and np.isin(self.envs, exchange.rows[exchange.touched]).any():
            self._take_frame(self._video)

    def _take_frame(self, video: VideoFile) -> None:
        try:
            frames = self.env.render()
        except PendingError:  # some are still running
            return
        assert frames is not None
        try:
            video.write(tile([np.asarray(frames[row]) for row in self.envs]))
        except BaseException:
            self.stop_recording()
            raise
        if 0 < self._video_length < video.frames:
            self.stop_recording()


def cubes_and_thousands(episode: int) -> bool:
    """Gymnasium's choice of episodes: 0, 1, 8, 27 ... 729, 1000, 2000 ..."""
    return round(episode ** (1 / 3)) ** 3 == episode if episode < 1000 else episode % 1000 == 0


def _checked(envs: Any, count: int) -> list[int]:
    if isinstance(envs, str):
        if envs != "all":
            raise ConfigError(f"envs must be 'all' or a list of env ids, got {envs!r}")
        return list(range(count))
    rows = [int(row) for row in envs]
    if not rows or len(set(rows)) != len(rows):
        raise ConfigError(f"envs must name at least one env, each once; got {rows}")
    if min(rows) < 0 or max(rows) >= count:
        raise UnknownRow(f"envs has {rows}, these are {count} envs: 0 ... {count - 1}")
    return rows
