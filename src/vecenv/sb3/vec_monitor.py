"""Returns and lengths of episodes, in the infos and in a file."""

from __future__ import annotations

import time
import warnings

import numpy as np

from vecenv._util.episodes import EpisodeTotals
from vecenv.sb3.base_vec_env import VecEnv, VecEnvObs, VecEnvStepReturn, VecEnvWrapper, registered
from vecenv.sb3.monitor import Monitor
from vecenv.wrappers._results_file import ResultsFile


@registered
class VecMonitor(VecEnvWrapper):
    """Where an episode ends, `info["episode"]` is its return "r", length "l" and time "t" since the start.

    Args:
        venv: to be wrapped.
        filename: of a CSV file with a row per episode, in the format of Stable-Baselines3's Monitor; None for no file.
        info_keywords: keys of the last step's info that become columns too.

    Attributes:
        episode_count: how many episodes ended.
    """

    def __init__(self, venv: VecEnv, filename: str | None = None, info_keywords: tuple[str, ...] = ()) -> None:
        try:
            monitored = venv.env_is_wrapped(Monitor)[0]
        except AttributeError:  # some vector envs, such as Procgen's, do not have this method
            monitored = False
        if monitored:
            warnings.warn(
                "The environment is already wrapped with a `Monitor` wrapper "
                "but you are wrapping it with a `VecMonitor` wrapper, the `Monitor` statistics will be "
                "overwritten by the `VecMonitor` ones.",
                UserWarning,
                stacklevel=2,
            )
        super().__init__(venv)
        self.info_keywords = info_keywords
        self.episode_count = 0
        self.t_start = time.time()
        self._totals = EpisodeTotals(venv.num_envs, np.float32, np.int32)
        spec = getattr(venv, "spec", None)
        header = {"t_start": self.t_start, "env_id": str(None if spec is None else spec.id)}
        self.results_writer = ResultsFile(filename, header, info_keywords) if filename else None

    @property
    def episode_returns(self) -> np.ndarray:
        """Return so far of each env's episode, float32."""
        return self._totals.returns

    @property
    def episode_lengths(self) -> np.ndarray:
        """Steps so far of each env's episode, int32."""
        return self._totals.lengths

    def reset(self) -> VecEnvObs:
        """Start an episode in every env. Episodes that had not ended do not count."""
        obs = self.venv.reset()
        self._totals.begin()
        return obs

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step, report the episodes that ended."""
        obs, rewards, dones, infos = self.venv.step_wait()
        infos = list(infos)
        for row in self._totals.add(rewards, dones).tolist():
            info = infos[row].copy() if row < len(infos) else {}
            info["episode"] = episode = {
                "r": self.episode_returns[row],
                "l": self.episode_lengths[row],
                "t": round(time.time() - self.t_start, 6),
                **{key: info[key] for key in self.info_keywords},
            }
            self.episode_count += 1
            self._totals.begin(row)
            if self.results_writer:
                self.results_writer.write(episode)
            if row < len(infos):  # some vector envs, such as Procgen's, have no infos
                infos[row] = info
        return obs, rewards, dones, infos

    def close(self) -> None:
        """Close the envs and the file."""
        try:
            self.venv.close()
        finally:  # after the envs: another thread may be writing the results of a step
            if self.results_writer:
                self.results_writer.close()
