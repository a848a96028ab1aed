"""Games of ale-py's native vector environment, one of each: they can be stepped alone, in any order, side by side."""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, TypeAlias

import numpy as np

from vecenv.atari._preprocessing import Preprocessing, frame_limit

INFOS = ("lives", "episode_frame_number", "frame_number")
"""What is known of a game beside its frames."""
Stepped: TypeAlias = tuple[Sequence[np.ndarray] | np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]
alive: weakref.WeakSet[Any] = weakref.WeakSet()
"""What holds native envs, and must let go of them in a forked process."""


@dataclass(frozen=True)
class GameSpec:
    """What the native env of a game needs to know."""

    name: str
    rom: str
    repeat_action_probability: float
    full_action_space: bool
    max_frames: int | None


class NativeGames:
    """Native envs, and what they were given to do.

    Attributes:
        together: whether rows are stepped and finish all at once.
        actions: names of the actions of each row.
        begun: rows that were given something to do, until `forget`.
        results: which of these rows are finished, see `result` and `stepped`.
    """

    together: ClassVar[bool]

    def __init__(self, natives: list[Any], rows_each: int) -> None:
        self._natives = natives
        self.actions = [[action.name for action in native.get_action_set()] for native in natives] * rows_each
        self.begun: dict[int, Any] = {}
        self.results: dict[int, Any] = {}
        alive.add(self)

    def forget(self, rows: Iterable[int]) -> None:
        """The results of these rows are noted."""
        for row in rows:
            self.begun.pop(row, None)

    def result(self, row: int) -> Sequence[Any]:
        """What the native env returned for one row: arrays of length one, and a dict of them."""
        raise NotImplementedError

    def stepped(self, rows: Sequence[int]) -> Stepped:
        """Frames, rewards, flags and infos of rows that were stepped."""
        frames, *columns, infos = zip(*map(self.result, rows), strict=True)
        rewards, terminated, truncated = map(np.concatenate, columns)
        row_infos = {name: np.concatenate([info[name] for info in infos]) for name in INFOS}
        return [frame[0, 0] for frame in frames], rewards, terminated, truncated, row_infos

    def close(self) -> None:
        """End all threads."""
        self._natives = []

    def leak(self) -> None:
        """Never destroy the native envs: this is a forked process, which does not have their threads."""
        for native in self._natives:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))


class Games(NativeGames):
    """One native env per row, each with a thread of its own.

    No native call can be interrupted, and none may be repeated or left out: a result that is not fetched would be taken
    for that of the next step, and waiting for a result that never comes would not end. So every call and the note of it
    are one statement without bytecode in between, where no signal handler can run. `begun` has the seeds of resets,
    None for steps.
    """

    together = False

    def __init__(self, specs: Sequence[GameSpec], preprocessing: Preprocessing) -> None:
        super().__init__([make_native(spec, preprocessing) for spec in specs], 1)
        interface: Any = type(self._natives[0])
        self._send, self._recv, self._reset = interface.send, interface.recv, interface.reset
        self._watched: dict[int, None] = {}
        """Rows that a watcher waits for. Like `results` it may keep rows that are no longer begun."""
        self._tickets: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._fetched: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._watchers: list[threading.Thread] = []

    def step(self, rows: Sequence[int], actions: Sequence[int]) -> None:
        """Start a step of each row; one whose game is over begins the next one instead."""
        self._clean(rows)
        natives = [self._natives[row] for row in rows]
        given = [[action] for action in actions]
        self.begun.update(zip(rows, map(self._send, natives, given, _STRENGTHS), strict=True))

    def reset(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin new games when they are fetched; with a seed of -1 random numbers go on as they were."""
        self._clean(rows)
        self.begun.update(zip(rows, seeds, strict=True))

    def fetch_all(self, rows: Iterable[int]) -> None:
        """Wait for all of these rows and put their results into `results`."""
        rows = [row for row in rows if row not in self.results]
        resets = [row for row in rows if self.begun[row] is not None and row not in self._watched]
        if resets:
            self._watch(resets, min(len(resets), os.cpu_count() or 1))
        direct = [row for row in reversed(rows) if row not in self._watched]  # when the last has come, all others have
        natives = [self._natives[row] for row in direct]
        self.results.update(zip(direct, map(self._recv, natives), strict=True))
        while any(row not in self.results for row in rows):
            self._take(1)

    def result(self, row: int) -> Sequence[Any]:
        return self.results[row]

    def fetch_some(self, seconds: float | None = None) -> bool:
        """Wait for any of the rows that were begun; False if none came within these seconds."""
        running = [row for row in self.begun if row not in self.results]
        self._watch([row for row in running if row not in self._watched], len(running))
        try:
            self._take(max(self._fetched.qsize(), 1), seconds)
        except queue.Empty:
            return False
        return True

    def close(self) -> None:
        for _ in self._watchers:
            self._tickets.put(None)
        for watcher in self._watchers:
            if watcher.is_alive():
                watcher.join()
        self._watchers = []
        super().close()

    def _clean(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._watched.pop(row, None)
            self.results.pop(row, None)

    def _take(self, count: int, seconds: float | None = None) -> None:
        self.results.update(map(queue.SimpleQueue.get, repeat(self._fetched, count), repeat(True), repeat(seconds)))

    def _watch(self, rows: Sequence[int], watchers: int) -> None:
        """Have threads wait for these rows."""
        missing = watchers - sum(watcher.is_alive() for watcher in self._watchers)
        for _ in range(missing):
            watcher = threading.Thread(target=self._wait_for_rows, daemon=True, name="vecenv-ale")
            self._watchers.append(watcher)
            watcher.start()
        self._watched.update(zip(rows, map(self._tickets.put, rows), strict=True))

    def _wait_for_rows(self) -> None:
        while (row := self._tickets.get()) is not None:
            game, seed = self._natives[row], self.begun[row]
            self._fetched.put((row, self._recv(game) if seed is None else self._reset(game, [0], [seed])))


_STRENGTHS: Any = repeat([1.0])


def make_native(spec: GameSpec, preprocessing: Preprocessing, count: int = 1, threads: int = 1) -> Any:
    """ale-py's native vector env of `count` games."""
    from ale_py._ale_py import ALEVectorInterface  # pyright: ignore[reportMissingImports]  # optional

    width, height = preprocessing.size
    return ALEVectorInterface(
        rom_path=spec.rom,
        num_envs=count,
        frame_skip=preprocessing.frame_skip,
        stack_num=1,
        img_height=height,
        img_width=width,
        grayscale=preprocessing.grayscale,
        maxpool=preprocessing.max_pool,
        noop_max=preprocessing.noop_max,
        use_fire_reset=preprocessing.fire_reset,
        episodic_life=preprocessing.episodic_life == "restart",
        life_loss_info=preprocessing.episodic_life == "continue",
        reward_clipping=False,
        max_episode_steps=frame_limit(spec.max_frames),
        repeat_action_probability=spec.repeat_action_probability,
        full_action_space=spec.full_action_space,
        batch_size=count,
        num_threads=threads,
        thread_affinity_offset=-1,
        autoreset_mode="NextStep",
    )


def _leak_all() -> None:
    for games in list(alive):
        games.leak()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leak_all)
