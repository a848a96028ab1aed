"""The evaluation loop: envs take episodes from a list until none is left; then they are not stepped again."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv._front.infos import ended_by_fault
from vecenv._front.step import Step
from vecenv.errors import InvalidAction, NotFiniteError, RestartLimit
from vecenv.evaluation._background import Progress
from vecenv.evaluation._jobs import Jobs
from vecenv.evaluation._policies import Actor
from vecenv.scenarios._noise import Noise
from vecenv.scenarios._parameter_writers import ParameterWriter
from vecenv.scenarios._sets import columns_of

_MOST_FAILURES = 10
"""How often one episode may fail, by faults that built its env again."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Results of the jobs."""

    returns: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray


class Loop:
    """Runs jobs in a vecenv vector env with autoreset "next-step".

    Every job runs to its end or to the limit exactly once, in whichever env: otherwise short episodes would count more
    than long ones.

    Args:
        envs: the vector env, or a wrapper around it.
        writer: writes parameter sets to the envs, None if there are none.
        limit: steps after which an episode is cut, None for never.
        progress: called with the number of ended episodes and of all episodes.
        stop: ends the loop when it is set.
    """

    def __init__(
        self,
        envs: Any,
        actor: Actor,
        jobs: Jobs,
        writer: ParameterWriter | None,
        limit: int | None,
        progress: Progress | None,
        stop: threading.Event,
    ) -> None:
        self._envs, self._base, self._limit = envs, envs.unwrapped, limit
        self._actor, self._jobs, self._writer = actor, jobs, writer
        self._progress, self._stop = progress, stop
        self._observations = Layout(envs.single_observation_space)
        self._job_of = np.arange(envs.num_envs)
        self._taken = envs.num_envs
        self._failures = np.zeros(len(jobs), np.int64)
        """How often each episode failed and was begun again."""
        self._ended = 0
        count = len(jobs)
        self.outcomes = Outcomes(np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.bool_))

    def run(self) -> Outcomes:
        """Run all jobs. Raises CancelledError if `stop` was set, InvalidAction if actions do not fit their space."""
        envs, fresh = self._envs, np.arange(self._envs.num_envs)
        rows, obs, starts, masks, pending = fresh[:0], None, np.zeros(0, np.bool_), None, 0
        self._assign(fresh)
        while True:
            if self._stop.is_set():
                raise CancelledError("the evaluation was cancelled")
            if len(rows):
                self._send(obs, rows, starts, masks)
            if len(fresh):
                envs.send_reset(fresh)
            pending += len(rows) + len(fresh)
            if not pending:
                return self.outcomes
            step = envs.recv()
            pending -= len(step.env_ids)
            done = step.done if self._limit is None else step.done | (step.episode_length >= self._limit)
            failed = _failed_resets(step)
            done = done if failed is None else done | failed
            fresh = self._finish(step, np.flatnonzero(done)) if done.any() else rows[:0]
            rows, obs, starts, masks = self._unfinished(step, done)

    def _send(self, obs: Any, rows: np.ndarray, starts: np.ndarray, masks: Any) -> None:
        actions = self._actor.act(obs, rows, starts, masks)
        try:
            self._envs.send(actions, None if len(rows) == self._envs.num_envs else rows)
        except InvalidAction as error:
            shape = getattr(actions, "shape", None)
            given = f"{type(actions).__name__}" if shape is None else f"an array of shape {tuple(shape)}"
            raise InvalidAction(
                f"the policy returned {given} for {len(rows)} observations; it must return one action of "
                f"{self._envs.single_action_space} for each: {error}"
            ) from error

    def _finish(self, step: Step, positions: np.ndarray) -> np.ndarray:
        """Store the results of episodes that ended and assign new ones to their envs; return the envs that got one."""
        rows = step.env_ids[positions]
        failed, not_finite = _faults(step, positions)
        self._count_failures(step, positions[failed])
        jobs, good = self._job_of[rows[~failed]], positions[~failed]
        self.outcomes.returns[jobs] = np.where(not_finite[~failed], np.nan, step.episode_return[good])
        self.outcomes.lengths[jobs] = step.episode_length[good]
        self.outcomes.terminated[jobs] = step.terminated[good]
        self._ended += len(jobs)
        if self._progress is not None and len(jobs):
            self._progress(self._ended, len(self._jobs))
        busy = rows[~failed][: len(self._jobs) - self._taken]
        self._job_of[busy] = np.arange(self._taken, self._taken + len(busy))
        self._taken += len(busy)
        # The episode of an env that was restarted does not count: it runs again.
        again = np.sort(np.concatenate([busy, rows[failed]]))
        if len(again):
            self._assign(again)
        return again

    def _count_failures(self, step: Step, positions: np.ndarray) -> None:
        """Raise RestartLimit if an episode has failed too often: with its seed it may fail for ever."""
        for position in positions.tolist():
            row, job = int(step.env_ids[position]), self._job_of[step.env_ids[position]]
            self._failures[job] += 1
            if self._failures[job] >= _MOST_FAILURES:
                fault = step.infos["fault"]
                raise RestartLimit(
                    f"the episode with seed {self._jobs.episode_seed[job]} failed {_MOST_FAILURES} times, last by "
                    f"{fault['kind'][position]}: {fault['message'][position]}; use other seeds, or fix the env",
                    row=row,
                )

    def _assign(self, rows: np.ndarray) -> None:
        """Set the seed and the parameters of the next episode of these envs."""
        jobs = self._job_of[rows]
        seeds = self._jobs.episode_seed[jobs]
        if self._writer is not None:
            columns = columns_of([self._jobs.sets[job] for job in jobs.tolist()])
            self._writer.prime(rows, columns, Noise(seeds, np.zeros_like(seeds)))
        self._base._prime(rows, seeds=seeds)

    def _unfinished(self, step: Step, done: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray, Any]:
        """Ids, observations, whether it is a first observation, and action masks of envs whose episode continues."""
        masks, starts = self._actor.masks(step.infos, step.env_ids, ~done), ~step.valid
        if not done.any():
            return step.env_ids, step.obs, starts, masks
        on = np.flatnonzero(~done)
        return step.env_ids[on], self._take(step.obs, on), starts[on], None if masks is None else masks[on]

    def _take(self, obs: Any, positions: np.ndarray) -> Any:
        """Some of the batched observations. Values without a fixed size are a tuple with one for each env."""
        leaves = [
            tuple(leaf[position] for position in positions.tolist()) if isinstance(leaf, tuple) else leaf[positions]
            for leaf in self._observations.flat(obs)
        ]
        return self._observations.nest(leaves)


def _failed_resets(step: Step) -> np.ndarray | None:
    """Which envs were built again because their reset failed: they have not begun with the seed that it had."""
    if ended_by_fault(step.infos) is None:
        return None
    return step.infos["_fault"] & ~step.valid & (step.infos["fault"]["kind"] != NotFiniteError.__name__)


def _faults(step: Step, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of these episodes must run again because their env was restarted, and which ended with NaN or infinity."""
    faulty, failed = ended_by_fault(step.infos), _failed_resets(step)
    if faulty is None or failed is None:
        return np.zeros(len(positions), np.bool_), np.zeros(len(positions), np.bool_)
    not_finite = faulty & (step.infos["fault"]["kind"] == NotFiniteError.__name__)
    return (faulty & ~not_finite | failed)[positions], not_finite[positions]
