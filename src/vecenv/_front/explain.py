"""`envs.explain()`: where time is spent, which envs are slow, and one line of advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vecenv._front.stats import CHEAP_SECONDS, LITTLE_SECONDS, Stats, WorkerStats
from vecenv.engines import SupportsClocks, registry

if TYPE_CHECKING:
    from vecenv._front.vector_env import VectorEnv

_FEW = 128
"""Steps of each env below which no advice is given: at first one in sixteen is timed, and the first is a reset."""
_SHOWN = 5
_SLOW = 4.0
"""An env is slow if its steps take this many times as long as those of the others."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Where time went since the vector env was made. `str` of it is a report.

    Attributes:
        stats: the numbers, see `VectorEnv.stats`.
        engine: its name, `reason`: why it was chosen.
        num_envs, batch_size, copy: of the vector env.
        timed: whether the engine says how long its envs take.
        parallel, native: what the engine declares, see `vecenv.engines.options.EngineOptions`.
    """

    stats: Stats
    engine: str
    reason: str
    num_envs: int
    batch_size: int
    copy: bool
    timed: bool
    parallel: bool
    native: bool

    @property
    def slowest(self) -> int:
        """The env whose steps take longest, -1 if that is not known."""
        return self.stats.slowest

    @property
    def worker(self) -> int:
        """The worker that has the slowest env, -1 if that is not known."""
        return -1 if self.slowest < 0 else self.worker_of(self.slowest)

    def worker_of(self, env: int) -> int:
        """The worker that has this env."""
        return next(number for number, worker in enumerate(self.stats.workers) if worker.start <= env < worker.stop)

    @property
    def waiting(self) -> float:
        """Seconds that the caller waited for envs; those of native code and of the sync engine it ran them itself."""
        stats = self.stats
        return max(stats.seconds_waiting, stats.seconds_in_envs) if self._caller_runs_them else stats.seconds_waiting

    @property
    def _caller_runs_them(self) -> bool:
        return self.timed and not self.parallel

    @property
    def elsewhere(self) -> float:
        """Seconds that were neither waiting nor copying: the caller's own code, between exchanges."""
        return max(0.0, self.stats.seconds - self.waiting - self.stats.seconds_copying)

    @property
    def advice(self) -> str:
        """The one thing to do next."""
        if (self.stats.steps / self.num_envs if self.timed else self.stats.exchanges) < _FEW:
            return f"only {self.stats.exchanges} exchanges so far: run a few hundred steps and ask again"
        found = self._slow_env() or self._copies() or self._too_cheap() or self._idle() or self._busy_caller()
        return found or self._alone() or "nothing stands out: time goes into the envs, and evenly"

    def __repr__(self) -> str:
        return f"Explanation(engine={self.engine!r}, slowest={self.slowest}, advice={self.advice!r})"

    # --- advice ------------------------------------------------------------------------------------------------------

    def _slow_env(self) -> str | None:
        """One env takes a large part of its worker's time, and all envs wait for it."""
        stats, typical, slowest = self.stats, self.stats.env_typical, self.slowest
        others = np.delete(typical, slowest) if slowest >= 0 else typical[:0]
        if not len(others) or np.isnan(others).all() or typical[slowest] < _SLOW * np.nanmedian(others):
            return None
        mine = stats.workers[self.worker]
        if typical[slowest] < 0.3 * np.nansum(typical[mine.start : mine.stop]) or typical[slowest] < CHEAP_SECONDS:
            return None
        bounds = f"p50 {_most(stats.env_p50[slowest])}, p99 {_most(stats.env_p99[slowest])}"
        took = f"env {slowest} takes about {_time(typical[slowest])} per step ({bounds}), the others "
        took += _time(np.nanmedian(others))
        if not self.parallel:
            return f"{took}: use engine='process' with workers={self.num_envs} and a batch_size, and send/recv"
        if self.batch_size == self.num_envs:
            return f"{took}, and all wait for it: give it a worker (workers={self.num_envs}), set batch_size, send/recv"
        if mine.stop - mine.start > 1:
            return f"{took}, and worker {self.worker} has others that wait for it: workers={self.num_envs}"
        return None

    def _copies(self) -> str | None:
        share = self._share(self.stats.seconds_copying)
        if share < 0.25 or not self.copy:
            return None
        return (
            f"copying results takes {share:.0%} of the time: copy=False hands out views that the next step overwrites"
        )

    def _too_cheap(self) -> str | None:
        typical = np.nanmedian(self.stats.env_typical) if self.slowest >= 0 else np.nan
        if not self.parallel or not typical < CHEAP_SECONDS:
            return None
        if typical * self.num_envs > LITTLE_SECONDS:
            return None
        return (
            f"a step of these envs takes {_time(typical)}, less than to hand it to a worker and back: engine='sync', "
            "or caller_works=True"
        )

    def _idle(self) -> str | None:
        """Workers with little to do next to others that have much."""
        busy = [worker.seconds for worker in self.stats.workers]
        if len(busy) < 2 or min(busy) > 0.5 * max(busy):
            return None
        idle, most = int(np.argmin(busy)), int(np.argmax(busy))
        took = f"busy for {_time(busy[idle])} while worker {most} is for {_time(busy[most])}"
        return (
            f"worker {idle} is idle most of the time, {took}: mix slow and fast envs (workers have neighbouring ones), "
            "or set batch_size and use send/recv"
        )

    def _busy_caller(self) -> str | None:
        share = self._share(self.elsewhere)
        if share < 0.5:
            return None
        return f"the envs wait for your code, {share:.0%} of the time: faster envs will not help; see your policy first"

    def _alone(self) -> str | None:
        if not self._caller_runs_them or self.native or self.num_envs == 1 or self._share(self.waiting) < 0.5:
            return None
        if self.stats.seconds_in_envs / self.stats.exchanges < LITTLE_SECONDS:
            return None
        return "the envs take turns in this process: engine='process' runs them side by side"

    # --- the report --------------------------------------------------------------------------------------------------

    def _share(self, seconds: float) -> float:
        return seconds / self.stats.seconds if self.stats.seconds > 0 else 0.0

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._workers(), *self._envs(), f"advice: {self.advice}"])

    def _head(self) -> list[str]:
        stats = self.stats
        rate = f", {stats.steps / stats.seconds:,.0f} a second" if stats.seconds > 0 and self.timed else ""
        steps = f"{stats.steps:,} steps and resets{rate}, " if self.timed else ""
        waited = "running the envs" if self._caller_runs_them else "waiting for envs"
        parts = ((waited, self.waiting), ("copying results", stats.seconds_copying), ("your code", self.elsewhere))
        return [
            f"{self.num_envs} envs, engine {self.engine!r} ({self.reason})",
            f"{steps}{stats.exchanges:,} exchanges in {_time(stats.seconds)}",
            *(f"  {name:<18} {_time(seconds):>8}  {self._share(seconds):>4.0%}" for name, seconds in parts),
        ]

    def _workers(self) -> list[str]:
        if not self.timed:
            return [f"the {self.engine} engine does not say how long its envs take"]
        return [
            f"{'worker':<8} {'envs':<12} {'in envs':>9} {'share':>6} {'p50':>10} {'p99':>10}",
            *(self._worker(number, worker) for number, worker in enumerate(self.stats.workers)),
        ]

    def _worker(self, number: int, worker: WorkerStats) -> str:
        envs = f"{worker.start} ... {worker.stop - 1}" if worker.stop - worker.start > 1 else str(worker.start)
        times = f"{_time(worker.seconds):>9} {self._share(worker.seconds):>6.0%}"
        return f"{number:<8} {envs:<12} {times} {_most(worker.p50):>10} {_most(worker.p99):>10}"

    def _envs(self) -> list[str]:
        if self.slowest < 0:
            said = "native code steps all of them at once" if self.native else "see what their workers took"
            return [f"envs are not timed one by one: {said}"] if self.timed and self.stats.exchanges else []
        stats, typical = self.stats, np.nan_to_num(self.stats.env_typical, nan=-1.0)
        slow = [env for env in np.argsort(-typical, kind="stable")[:_SHOWN].tolist() if typical[env] >= 0]
        return [
            f"{'slowest':<8} {'worker':<12} {'about':>9} {'':>6} {'p50':>10} {'p99':>10}",
            *(
                f"env {env:<4} {self.worker_of(env):<12} {_time(typical.item(env)):>9} {'':>6} "
                f"{_most(stats.env_p50.item(env)):>10} {_most(stats.env_p99.item(env)):>10}"
                for env in slow
            ),
        ]


def explain(envs: VectorEnv) -> Explanation:
    """What is known of a vector env's time."""
    return Explanation(
        envs.stats(),
        envs.engine.name,
        envs.engine_reason,
        envs.num_envs,
        envs.batch_size,
        envs.copy,
        isinstance(envs.engine, SupportsClocks),
        registry.declares(envs.engine, "parallel"),
        registry.declares(envs.engine, "native"),
    )


def _most(seconds: float) -> str:
    return "?" if np.isnan(seconds) else f"<= {_time(seconds)}"


def _time(seconds: float) -> str:
    """Three digits, with a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
