"""The ale engine: preprocessed Atari games, run by ale-py's native vector environment."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from vecenv._batch.batch import Batch, Mail, Op, Rows
from vecenv._batch.faults import Fault
from vecenv._batch.seeding import NO_SEED
from vecenv.atari._preprocessing import FrameStacks, Preprocessing, ale_seed, frame_limit
from vecenv.engines import registry
from vecenv.engines.ale.games import INFOS, Games, GameSpec
from vecenv.engines.ale.pool import GamePool
from vecenv.engines.facts import BatchFacts
from vecenv.engines.pending import PendingRows
from vecenv.errors import InvalidAction, SpaceError, UnsupportedError

_RESET, _ROLL = int(Op.RESET), int(Op.ROLL)


class AleEngine:
    """Every row is a native game; stacks, clipped rewards and episodes of a life are made here.

    The laws of engines hold, with games as rows: the reference is `vecenv.atari.AtariGame` in the sync engine. A native
    game cannot fail, so there is nothing to report (law 5); `send` refuses actions that are out of range.

    Args:
        specs: one game per row; all must have the same number of actions.
        preprocessing: options of all.
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        threads: None for a thread per game; else the number of threads of one pool that steps all games at once. These
            must be the same game, and `episodic_life` must not be "continue".
    """

    name = "ale"
    checks_actions = False

    def __init__(
        self,
        specs: Sequence[GameSpec],
        preprocessing: Preprocessing,
        *,
        ordered: bool = False,
        threads: int | None = None,
    ) -> None:
        self.specs, self._options = list(specs), preprocessing
        self._games: Any = Games(specs, preprocessing) if threads is None else GamePool(specs, preprocessing, threads)
        counts = [len(actions) for actions in self._games.actions]
        for row, actions in enumerate(counts):
            if actions != counts[0]:
                raise SpaceError(
                    f"{specs[row].name} has {actions} actions and {specs[0].name} has {counts[0]}; "
                    "games share an action space with full_action_space=True"
                )
        count, self._actions = len(self.specs), counts[0]
        observation, action = preprocessing.observation_space(), Discrete(counts[0])
        metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 30}
        self.facts = BatchFacts.of(observation, action, count, metadata, None)
        self.batch = Batch.allocate(self.facts.observation_layout, self.facts.action_layout, count)
        names = {**dict.fromkeys(INFOS, np.int64), **({"raw_reward": np.float64} if preprocessing.clip_reward else {})}
        self.batch.info.update((name, np.zeros(count, dtype)) for name, dtype in names.items())
        self.batch.final_info.update((name, column.copy()) for name, column in self.batch.info.items())
        self._stacks = FrameStacks(self.batch.obs[0], preprocessing)
        self._first_action = [preprocessing.first_action(actions) for actions in self._games.actions]
        self._limits = [frame_limit(spec.max_frames) for spec in specs]
        self._begins_by_step = np.ones(count, np.bool_)
        """Whether the native env will begin a game by itself when it is stepped."""
        self._seeded = np.zeros(count, np.bool_)
        self._first_frame = np.zeros(count, np.int64)
        """ALE's frame number when the running game began."""
        self._rolling: set[int] = set()
        """Rows whose ROLL has ended an episode and begins the next."""
        self._pending = PendingRows(count, ordered=ordered)
        self._listed = list(range(count))
        self._noting: list[int] = []
        """Rows whose results are being written; if an interrupt comes meanwhile, these are lost."""
        self._close = weakref.finalize(self, self._games.close)  # at exit too: else nanobind complains of leaks

    # --- the seam ----------------------------------------------------------------------------------------------------

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Send all rows and receive them. Observations have no ring of buffers: `rotate` changes nothing."""
        self.batch.set_ops(alive, over)
        self.send(self._pending.everyone)
        self.recv(len(self._listed))
        return self.batch.count_ended()

    @property
    def rewards_are_finite(self) -> bool:
        return self.batch.rewards_are_finite()

    def send(self, rows: Rows) -> None:
        self._lose_interrupted()
        if self._games.together and rows is self._pending.everyone and self._all_step():
            actions = self.batch.actions[0].tolist()
            if min(actions) >= 0 and max(actions) < self._actions:  # else the rest of this method says what is wrong
                self.batch.options.clear()
                self._pending.open(rows)
                self._games.step(self._listed, actions)
                return
        listed = np.sort(rows)
        ops, actions = self.batch.op[listed], self.batch.actions[0][listed]
        resets = ops == _RESET
        wrong = ~resets & ((actions < 0) | (actions >= self._actions))
        if wrong.any():
            row = int(listed[wrong][0])
            raise InvalidAction(f"action of env {row} must be in 0 ... {self._actions - 1}, got {actions[wrong][0]}")
        if self._games.together and len(listed) != len(self.specs) and not resets.all():
            raise UnsupportedError(
                f"these games share a pool that steps all at once, and {len(listed)} of {len(self.specs)} were to be "
                "stepped; make them without `workers`"
            )
        self.batch.options.clear()
        self._rolling.difference_update(listed.tolist())
        self._pending.open(listed)
        self._start(listed)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        self._lose_interrupted()
        pending, games = self._pending, self._games
        while pending.missing(count):
            if len(games.begun) < pending.count:
                self._start_left_out()
            if pending.ordered and count < pending.count:
                games.fetch_all([row for row in pending.oldest(count).tolist() if row in games.begun])
            elif count < pending.count:
                games.fetch_some()
            else:
                games.fetch_all(list(games.begun))
            self._note()
        return pending.take(count, self.batch)

    def pending(self) -> Rows:
        self._lose_interrupted()
        return self._pending.rows()

    def gather(self, count: int, seconds: float, timeout: float | None = None) -> int:
        self._lose_interrupted()
        pending, deadline = self._pending, time.monotonic() + seconds
        while pending.missing(count):
            self._start_left_out()
            left = min(threading.TIMEOUT_MAX, max(0.0, deadline - time.monotonic()))
            if not self._games.fetch_some(left):
                break
            self._note()
        return pending.count_ready()

    def close(self, timeout: float = 5.0) -> None:
        self._games.close()
        self._close.detach()

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        """Native games have no Python objects; what is known of them can be asked."""
        if name == "game":
            return [spec.name for spec in self.specs]
        if name == "get_action_meanings":
            return [list(actions) for actions in self._games.actions]
        raise _unreachable(f"native games have no {name!r}")

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        """There is nothing to set."""
        raise _unreachable(f"{name!r} of native games cannot be set")

    # --- how ---------------------------------------------------------------------------------------------------------

    def _all_step(self) -> bool:
        """Whether no row begins an episode."""
        return not self._rolling and _RESET not in self.batch.op.tobytes()

    def _start_left_out(self) -> None:
        """Start pending rows that were not, because an interrupt came before."""
        running = self._pending.rows()[~self._pending.finished[self._pending.rows()]]
        left_out = running[[row not in self._games.begun for row in running.tolist()]]
        if len(left_out):
            self._start(left_out)

    def _start(self, rows: Rows) -> None:
        """Give the native games of these rows, which are pending, what they have to do."""
        begins = self.batch.op[rows] == _RESET
        begins[[row in self._rolling for row in rows.tolist()]] = True
        steps = rows[~begins]
        self._games.step(steps.tolist(), self.batch.actions[0][steps].tolist())
        if begins.any():
            self._begin(rows[begins].tolist(), whole=len(rows) == len(self.specs) and not self._rolling)

    def _begin(self, rows: list[int], whole: bool = False) -> None:
        """Begin episodes: by a step where the native game is over or goes on with the next life, else by a reset."""
        seeds = self.batch.seed
        by_step = [row for row in rows if seeds[row] == NO_SEED and self._steps_into_next(row)]
        if self._games.together and not (whole and len(by_step) == len(rows)):
            by_step = []
        by_reset = [row for row in rows if row not in set(by_step)]
        self._games.step(by_step, [self._first_action[row] for row in by_step])
        if by_reset:
            self._games.reset(by_reset, [self._native_seed(row) for row in by_reset])

    def _steps_into_next(self, row: int) -> bool:
        """Whether a step of the native game begins the next episode. The first game of a row is always seeded."""
        goes_on = self._options.episodic_life == "continue" and (self.batch.done[row] or row in self._rolling)
        return bool(self._seeded[row] and (self._begins_by_step[row] or goes_on))

    def _native_seed(self, row: int) -> int:
        """The seed for the native game. That it is used is noted with the first frame: a reset may be started twice."""
        seed = int(self.batch.seed[row])
        if seed == NO_SEED and self._seeded[row]:
            return NO_SEED
        return ale_seed(seed if seed != NO_SEED else int(np.random.SeedSequence().generate_state(1)[0]))

    def _note(self) -> None:
        """Write what was fetched into the columns; rows whose episode is to begin now go on."""
        rows, begin = self._listed, []
        if not self._games.together or len(self._games.begun) < len(rows) or not self._all_step():
            rows = sorted(row for row in self._games.begun if row in self._games.results)
            begin = [row for row in rows if self.batch.op[row] == _RESET or row in self._rolling]
        self._noting = rows
        again = self._note_beginnings(begin) if begin else []
        step = [row for row in rows if row not in set(begin)] if begin else rows
        rolling = self._note_steps(step) if step else []
        self._rolling.update(rolling)
        going = sorted([*again, *rolling])
        finished: Any = [row for row in rows if row not in going] if going else rows
        self._games.forget(rows)
        self._pending.finished[finished if len(finished) < len(self._listed) else ...] = True
        self._noting = []
        if going:
            self._begin(going)

    def _note_steps(self, rows: list[int]) -> list[int]:
        """Steps; returns the rows that ended an episode and are to begin the next."""
        batch = self.batch
        frames, rewards, terminated, truncated, row_infos = self._games.stepped(rows)
        index: Any = np.array(rows) if len(rows) < len(self._listed) else ...  # with it, all takes half the time
        raw, ended = rewards.astype(np.float64), terminated | truncated
        if batch.info.get("raw_reward") is not None:
            row_infos["raw_reward"] = raw
        self._begins_by_step[index] = self._natively_over(rows, terminated, truncated, row_infos)
        reward = np.sign(raw) if self._options.clip_reward else raw
        going_on = ~(batch.terminated[index] | batch.truncated[index])
        batch.reward[index], batch.terminated[index], batch.truncated[index] = reward, terminated, truncated
        batch.episode_return[index] = batch.episode_return[index] * going_on + reward
        batch.episode_length[index] = batch.episode_length[index] * going_on + 1
        rolled = ended & (batch.op[index] == _ROLL)
        batch.done[index] = ended & ~rolled
        if isinstance(frames, np.ndarray):
            self._stacks.push_all(frames)
        else:
            for row, frame in zip(rows, frames, strict=True):
                self._stacks.push(row, frame)
        for name, column in row_infos.items():
            batch.info[name][index] = column
        if not np.count_nonzero(rolled):
            return []
        rolling = np.array(rows)[rolled]
        batch.final_obs[0][rolling] = batch.obs[0][rolling]
        for name, column in batch.final_info.items():
            column[rolling] = batch.info[name][rolling]
        return rolling.tolist()

    def _natively_over(
        self, rows: list[int], terminated: np.ndarray, truncated: np.ndarray, row_infos: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Where the native env takes the game for over; a lost life does not end the game, unless time is up."""
        if self._options.episodic_life != "continue":
            return terminated | truncated
        lives = row_infos["lives"]
        lost = (lives > 0) & (lives < self.batch.info["lives"][rows])
        late = row_infos["frame_number"] - self._first_frame[rows] >= [self._limits[row] for row in rows]
        return truncated | (terminated & (~lost | late))

    def _note_beginnings(self, rows: list[int]) -> list[int]:
        """First frames of episodes; returns the rows whose game was over before it could go on."""
        batch, again = self.batch, []
        for row in rows:
            frame, *rest, info = self._games.result(row)
            row_infos = {name: int(info[name][0]) for name in INFOS}
            goes_on = bool(rest) and not self._begins_by_step[row]
            if goes_on:
                arrays = {name: np.array([value]) for name, value in row_infos.items()}
                self._begins_by_step[row] = self._natively_over([row], rest[1], rest[2], arrays)[0]
            if goes_on and self._begins_by_step[row]:
                again.append(row)
                continue
            if not goes_on:
                self._first_frame[row] = row_infos["frame_number"]
            self._begins_by_step[row] = False
            if not rest:
                self._note_seed(row)
            for name, value in row_infos.items():
                batch.info[name][row] = value
            if "raw_reward" in batch.info:
                batch.info["raw_reward"][row] = 0.0
            self._stacks.begin(row, frame[0, 0])
            if batch.op[row] == _RESET:
                batch.reward[row] = batch.episode_return[row] = 0.0
                batch.terminated[row] = batch.truncated[row] = batch.done[row] = False
                batch.episode_length[row] = 0
        return again

    def _note_seed(self, row: int) -> None:
        """A reset of the native game has used the row's seed."""
        if self.batch.seed[row] != NO_SEED:
            self.batch.last_seed[row], self.batch.seed[row] = self.batch.seed[row], NO_SEED
        self._seeded[row] = True

    def _lose_interrupted(self) -> None:
        """If Ctrl-C came while results were written, some columns may not be: those rows fail, and need a reset."""
        rows = self._noting
        if not rows:
            return
        for row in rows:
            interrupt = KeyboardInterrupt("while results were written")
            self.batch.mail[row] = Mail(fault=Fault.of(interrupt, "step", seed=int(self.batch.last_seed[row])))
        self._pending.finished[rows] = True
        self._begins_by_step[rows] = self.batch.done[rows] = False
        self._rolling.difference_update(rows)
        self._games.forget(rows)
        self._noting = []


def _unreachable(what: str) -> UnsupportedError:
    able = registry.words(registry.python_engines())
    return UnsupportedError(f"{what}; use {able} for games in Python, with render(), RAM, clone_state() and the rest")
