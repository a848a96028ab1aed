"""A model that computes the expected rows of many FaultEnvs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from vecenv._batch.faults import restart_seed

_AHEAD = 1024
"""Number of values that are drawn at once from each env's random stream."""
_NOISE = 4
"""Position of the noise in an observation."""
FAULTS = ("ValueError", "WorkerDied", "WorkerTimeout")
"""Names of a soak's faults in infos; any other is an error."""


class WrongRow(Exception):
    """A row differs from what its env must have returned."""


class Model:
    """Follows `count` FaultEnvs in same-step mode through steps, ends of episodes and restarts, to the last bit.

    Args:
        count: number of envs.
        length: length of the episodes of env 0; those of env i have i more steps.

    Attributes:
        faults: number of reports of each fault, by name; "NaN" counts values that are not numbers.
        rows: number of rows that were checked.
    """

    def __init__(self, count: int, length: int) -> None:
        self.faults: Counter[str] = Counter()
        self.rows = 0
        self._index, self._length = np.arange(count), length + np.arange(count)
        self._episode, self._step = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._seed = 0
        self._streams: list[np.random.Generator] = [np.random.default_rng() for _ in range(count)]
        self._noise, self._drawn = np.zeros((count, _AHEAD)), np.zeros(count, np.int64)
        self._delivered = np.zeros((count, _NOISE + 1))

    def reset(self, obs: np.ndarray, seed: int, again: bool = False) -> None:
        """All envs were reset with `seed`; `again`: after a failed step, which may have begun some episodes."""
        self._episode = obs[:, 1].astype(np.int64) if again else np.ones_like(self._episode)
        self._seed = seed
        self._step[:] = 0
        for row in self._index.tolist():
            self._begin_stream(row, seed + row)
        self._compare("obs", obs, self._expected(self._index, -1), self._index)
        self._delivered = obs.copy()

    def step(self, actions: np.ndarray, result: tuple[Any, ...]) -> None:
        """Check the results of a step of all envs. Raises WrongRow if a row differs from the expected one."""
        obs, reward, terminated, truncated, infos = result
        failed = np.asarray(infos.get("_fault", np.zeros(len(actions), np.bool_)))
        self._step += 1
        ended = (self._step >= self._length) & ~failed
        self._compare("terminated", terminated, ended, self._index)
        self._compare("truncated", truncated, failed, self._index)
        self._compare("reward", reward, np.where(failed, 0.0, 1000.0 * self._index + self._step), self._index)
        shown = obs.copy()
        final = infos.get("final_obs")
        for row in np.flatnonzero(ended | failed).tolist():
            shown[row] = final[row]
        going = np.flatnonzero(~failed)
        self._compare("obs", shown[going], self._expected(going, actions[going]), going)
        self._compare("final_obs", shown[failed], self._delivered[failed], np.flatnonzero(failed))
        self._begin_episodes(np.flatnonzero(ended), np.flatnonzero(failed), infos.get("fault"))
        begun = np.flatnonzero(ended | failed)
        if len(begun):
            self._compare("obs", obs[begun], self._expected(begun, -1), begun)
        self._delivered = obs.copy()
        self.rows += len(actions)

    def _begin_episodes(self, ended: np.ndarray, failed: np.ndarray, reports: Any) -> None:
        self._episode[ended] += 1
        self._episode[failed] = 1
        self._step[ended] = self._step[failed] = 0
        reported = set()
        for row in failed.tolist():
            report = {name: reports[name][row] for name in ("kind", "env", "restarts", "message")}
            if report["env"] != row or report["kind"] not in FAULTS:
                raise WrongRow(f"env {row} reports a fault that is not its own: {report}")
            reported.add((report["kind"], report["message"]))
            self._begin_stream(row, restart_seed(self._seed + row, row, int(report["restarts"])))
        self.faults.update(kind for kind, _ in reported)

    def _begin_stream(self, row: int, seed: int) -> None:
        self._streams[row] = seeding.np_random(seed)[0]
        self._noise[row], self._drawn[row] = self._streams[row].random(_AHEAD), 0

    def _expected(self, rows: np.ndarray, actions: Any) -> np.ndarray:
        """The expected observations after these actions."""
        for row in rows[self._drawn[rows] == _AHEAD].tolist():
            self._noise[row], self._drawn[row] = self._streams[row].random(_AHEAD), 0
        noise = self._noise[rows, self._drawn[rows]]
        self._drawn[rows] += 1
        actions = np.broadcast_to(actions, rows.shape)
        return np.stack([rows, self._episode[rows], self._step[rows], actions, noise], axis=1)

    def _compare(self, name: str, got: np.ndarray, wanted: np.ndarray, rows: np.ndarray) -> None:
        wrong = got != wanted
        if not wrong.any():
            return
        spoilt = np.isnan(got) & (name != "final_obs")
        if spoilt.any():  # these are faults of the env: NaN in rewards and in the noise
            if got.ndim == 2:
                spoilt[:, :_NOISE] = False
            self.faults["NaN"] += int(spoilt.sum())
        wrong &= ~spoilt & ~(np.isnan(got) & np.isnan(wanted))
        bad = np.flatnonzero(wrong.reshape(len(rows), -1).any(axis=1))
        if len(bad):
            place = int(bad[0])
            raise WrongRow(
                f"{name} of env {rows[place]} is {got[place].tolist()}, it must be {wanted[place].tolist()} "
                f"({len(bad)} wrong rows in this step; episode {self._episode[rows[place]]}, "
                f"step {self._step[rows[place]]}; observations are env, episode, step, action, noise)"
            )
