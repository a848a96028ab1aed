"""Episodes of single envs: their returns, lengths and times, in infos and in files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium

from vecenv.wrappers._results_file import SUFFIX, ResultsFile
from vecenv.wrappers._results_file import load_results as _load_results

__all__ = ["LoadMonitorResultsError", "Monitor", "ResultsWriter", "get_monitor_files", "load_results"]


class LoadMonitorResultsError(Exception):
    """There are no files of results."""


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An env whose infos have, where an episode ends, "episode": its return "r", length "l" and time "t" in seconds.

    Args:
        env: the environment.
        filename: a file for one row per episode, or None for no file. See `ResultsWriter`.
        allow_early_resets: False raises RuntimeError if an episode is not over when the next one begins.
        reset_keywords: arguments that `reset` requires and that are written with the episode.
        info_keywords: keys of the last info that are written with the episode.
        override_existing: False adds to a file that is there.
    """

    EXT = SUFFIX

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        filename: str | None = None,
        allow_early_resets: bool = True,
        reset_keywords: tuple[str, ...] = (),
        info_keywords: tuple[str, ...] = (),
        override_existing: bool = True,
    ) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.results_writer: ResultsWriter | None = None
        if filename is not None:
            env_id = str(env.spec.id if env.spec is not None else None)
            self.results_writer = ResultsWriter(
                filename,
                header={"t_start": self.t_start, "env_id": env_id},
                extra_keys=reset_keywords + info_keywords,
                override_existing=override_existing,
            )
        self.reset_keywords = reset_keywords
        self.info_keywords = info_keywords
        self.allow_early_resets = allow_early_resets
        self.rewards: list[float] = []
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.total_steps = 0
        self.current_reset_info: dict[str, Any] = {}

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Raises:
            RuntimeError: the last one is not over, and early resets are not allowed.
            ValueError: one of `reset_keywords` is missing.
        """
        if not self.allow_early_resets and not self.needs_reset:
            raise RuntimeError(
                "Tried to reset an environment before done. If you want to allow early resets, "
                "wrap your env with Monitor(env, path, allow_early_resets=True)"
            )
        self.rewards = []
        self.needs_reset = False
        for key in self.reset_keywords:
            value = kwargs.get(key)
            if value is None:
                raise ValueError(f"Expected you to pass keyword argument {key} into reset")
            self.current_reset_info[key] = value
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Apply an action.

        Raises:
            RuntimeError: the episode is over.
        """
        if self.needs_reset:
            raise RuntimeError("Tried to step environment that needs reset")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        if terminated or truncated:
            self.needs_reset = True
            info["episode"] = self._end(info)
        self.total_steps += 1
        return observation, reward, terminated, truncated, info

    def _end(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Write the episode that just ended."""
        total, length, seconds = sum(self.rewards), len(self.rewards), time.time() - self.t_start
        self.episode_returns.append(total)
        self.episode_lengths.append(length)
        self.episode_times.append(seconds)
        episode: dict[str, Any] = {"r": round(total, 6), "l": length, "t": round(seconds, 6)}
        episode.update((key, info[key]) for key in self.info_keywords)
        episode.update(self.current_reset_info)
        if self.results_writer is not None:
            self.results_writer.write_row(episode)
        return episode

    def close(self) -> None:
        """Close the env and the file."""
        try:
            super().close()
        finally:
            if self.results_writer is not None:
                self.results_writer.close()

    def get_total_steps(self) -> int:
        """Steps of all episodes."""
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        """Returns of the episodes that ended."""
        return self.episode_returns

    def get_episode_lengths(self) -> list[int]:
        """Lengths of the episodes that ended."""
        return self.episode_lengths

    def get_episode_times(self) -> list[float]:
        """When they ended, in seconds since the wrapper was made."""
        return self.episode_times


class ResultsWriter(ResultsFile):
    """A file with one row per episode; `lost` counts those that could not be written, such as on a full disk.

    Args:
        filename: `.monitor.csv` is appended unless it ends with `monitor.csv`; a directory gets the file `monitor.csv`.
        header: what its first line says.
        extra_keys: columns after "r", "l" and "t".
        override_existing: False adds to a file that is there.
    """

    def __init__(
        self,
        filename: str = "",
        header: dict[str, float | str] | None = None,
        extra_keys: tuple[str, ...] = (),
        override_existing: bool = True,
    ) -> None:
        super().__init__(filename, header, extra_keys, append=not override_existing)
        self.file_handler = self._file
        self.logger = self._writer

    def write_row(self, epinfo: dict[str, Any]) -> None:
        """Add an episode; it is on disk when this returns, or was counted as `lost`."""
        self.write(epinfo)


def get_monitor_files(path: str) -> list[str]:
    """The files of results in a directory."""
    return [str(file) for file in Path(path).glob(f"*{SUFFIX}")]


def load_results(path: str) -> Any:
    """All episodes of the files in a directory, as one pandas.DataFrame in order of time.

    Raises:
        LoadMonitorResultsError: there are no such files.
    """
    if not get_monitor_files(path):
        raise LoadMonitorResultsError(f"No monitor files of the form *{SUFFIX} found in {path}")
    return _load_results(path)
