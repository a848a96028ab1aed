"""Wrappers that report returns and lengths of episodes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vecenv._front.exchange import Exchange
from vecenv._front.infos import ended_by_fault
from vecenv._util.episodes import EpisodeTotals
from vecenv.errors import ConfigError
from vecenv.wrappers._results_file import ResultsFile
from vecenv.wrappers._transform import Transform, fitting
from vecenv.wrappers._wrapper import Wrapper


class RecordEpisodeStatistics(Wrapper):
    """Return, length and duration of every episode.

    Where an episode ends, in any autoreset mode, `infos["episode"]` has arrays "r" (return), "l" (length) and "t"
    (seconds), zero where none ended, and `infos["_episode"]` says where. Returns are sums of the rewards of `env`.

    Args:
        env: the vector env.
        buffer_length: how many of the last episodes the queues hold.
        stats_key: instead of "episode".

    Attributes:
        return_queue, length_queue, time_queue: returns, lengths and seconds of the last episodes.
    """

    transform: EpisodeStatistics

    def __init__(self, env: gymnasium.vector.VectorEnv, buffer_length: int = 100, stats_key: str = "episode") -> None:
        super().__init__(env, EpisodeStatistics(buffer_length, stats_key))
        self.return_queue: deque[float] = self.transform.queues["r"]
        self.length_queue: deque[int] = self.transform.queues["l"]
        self.time_queue: deque[float] = self.transform.queues["t"]

    @property
    def episode_count(self) -> int:
        """How many episodes have ended."""
        return self.transform.count

    @property
    def skipped(self) -> int:
        """How many episodes are in the infos, but not in the queues: ended by a fault, or with no finite return."""
        return self.transform.skipped

    @property
    def episode_returns(self) -> np.ndarray:
        """Return of each env's episode so far; of the ended one until the next begins."""
        return self.transform.totals.returns.copy()

    @property
    def episode_lengths(self) -> np.ndarray:
        """Length of each env's episode so far; of the ended one until the next begins."""
        return self.transform.totals.lengths.copy()


class RecordResults(Wrapper):
    """Every episode as a row of a file, in the format of Stable-Baselines3's Monitor; see `load_results`.

    Args:
        env: the vector env.
        path: `.monitor.csv` is appended unless it ends so; a directory gets the file `monitor.csv`.
        info_keywords: names of infos, taken from the step that ended the episode, for further columns.
        append: add to an existing file.

    Attributes:
        path: where the file is.
    """

    transform: EpisodeResults

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        path: str | Path,
        info_keywords: Sequence[str] = (),
        append: bool = False,
    ) -> None:
        spec = env.unwrapped.spec if isinstance(env, gymnasium.vector.VectorEnv) else None
        name = str(None if spec is None else spec.id)
        super().__init__(env, EpisodeResults(path, name, tuple(info_keywords), append))
        self.path = self.transform.file.path

    @property
    def lost(self) -> int:
        """Episodes that could not be written, such as on a full disk."""
        return self.transform.file.lost


class Totals(EpisodeTotals):
    """Return, length and start time of the episode that each env is in."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.starts = np.full(count, time.perf_counter())

    def begin(self, rows: Any = slice(None)) -> None:
        super().begin(rows)
        self.starts[rows] = time.perf_counter()

    def count(self, exchange: Exchange) -> dict[str, np.ndarray] | None:
        """Add an exchange; "r", "l" and "t" over its positions if episodes ended, zero where none did."""
        valid, rows, done = exchange.valid, exchange.rows, exchange.done
        self.begin(rows[exchange.began & ~valid])
        if not self.add(exchange.reward, done, valid, rows).size:
            return None
        seconds = np.round(time.perf_counter() - self.starts[rows], 6)
        columns = {"r": self.returns[rows], "l": self.lengths[rows], "t": seconds}
        ended = {name: np.where(done, column, column.dtype.type(0)) for name, column in columns.items()}
        self.begin(rows[exchange.rolled])
        return ended

    def state_dict(self) -> dict[str, Any]:
        """Copies of the totals, with times as seconds so far."""
        seconds = time.perf_counter() - self.starts
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy(), "seconds": seconds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring back what `state_dict` returned."""
        returns, lengths, seconds = (
            fitting(state[name], self.returns, name) for name in ("returns", "lengths", "seconds")
        )
        self.returns[...], self.lengths[...], self.starts[...] = returns, lengths, time.perf_counter() - seconds


class EpisodeReport(Transform):
    """Reports the totals of ended episodes. Subclasses say how."""

    def __init__(self) -> None:
        self.totals = Totals(0)

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        self.totals = Totals(count)
        return observation, action

    def exchange(self, exchange: Exchange) -> None:
        ended = self.totals.count(exchange)
        if ended is not None:
            self.report(exchange, ended)

    def report(self, exchange: Exchange, ended: dict[str, np.ndarray]) -> None:
        """Report what `Totals.count` returned."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return self.totals.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.totals.load_state_dict(state)


class EpisodeStatistics(EpisodeReport):
    """Puts the totals of ended episodes into infos and queues."""

    def __init__(self, buffer_length: int, key: str) -> None:
        super().__init__()
        self._key = key
        self.queues: dict[str, deque[Any]] = {name: deque(maxlen=buffer_length) for name in "rlt"}
        self.count = self.skipped = 0

    def report(self, exchange: Exchange, ended: dict[str, np.ndarray]) -> None:
        if self._key in exchange.infos:
            raise ConfigError(f"infos have {self._key!r} already; choose another stats_key")
        done = exchange.done
        exchange.infos = {**exchange.infos, self._key: ended, f"_{self._key}": done}
        fit, faulty = done & np.isfinite(ended["r"]), ended_by_fault(exchange.infos)
        fit = fit if faulty is None else fit & ~faulty
        self.count += int(np.count_nonzero(done))
        self.skipped += int(np.count_nonzero(done & ~fit))
        for name, column in ended.items():
            self.queues[name].extend(column[fit].tolist())

    def state_dict(self) -> dict[str, Any]:
        queues = {f"queue.{name}": np.array(queue) for name, queue in self.queues.items()}
        return {"count": self.count, **queues, **super().state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        queues = {name: np.asarray(state[f"queue.{name}"], np.float64).tolist() for name in self.queues}
        count = int(state["count"])
        super().load_state_dict(state)
        self.count = count
        for name, queue in self.queues.items():
            queue.clear()
            queue.extend(map(int, queues[name]) if name == "l" else queues[name])


class EpisodeResults(EpisodeReport):
    """Writes the totals of ended episodes to a file."""

    def __init__(self, path: str | Path, env_id: str, keywords: tuple[str, ...], append: bool) -> None:
        super().__init__()
        self._started = time.time()
        self._keywords = keywords
        self.file = ResultsFile(path, {"t_start": self._started, "env_id": env_id}, keywords, append)

    def report(self, exchange: Exchange, ended: dict[str, np.ndarray]) -> None:
        now = round(time.time() - self._started, 6)
        for position in np.flatnonzero(exchange.done).tolist():
            extra = {keyword: self._final_info(exchange, keyword, position) for keyword in self._keywords}
            returned, length = round(float(ended["r"][position]), 6), int(ended["l"][position])
            self.file.write({"r": returned, "l": length, "t": now, **extra})

    def close(self) -> None:
        self.file.close()

    def _final_info(self, exchange: Exchange, keyword: str, position: int) -> Any:
        """An info of the step that ended the episode."""
        infos = exchange.infos
        if exchange.rolled[position]:
            infos = infos.get("final_info", {})
        if keyword not in infos or not infos.get(f"_{keyword}", np.ones(len(exchange)))[position]:
            raise ConfigError(
                f"info_keywords has {keyword!r}, which is not in the info that ended an episode of env "
                f"{exchange.rows[position]}"
            )
        value = infos[keyword][position]
        return value.item() if isinstance(value, np.generic) else value
