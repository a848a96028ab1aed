"""Run envs that fail at random for a long time, and check every row and everything that could leak.

    python -m vecenv.testing.soak --minutes 30 --out soak

Envs raise, are killed, hang, crash and return NaN, and are restarted. Every row is compared with the expected one.
Memory, descriptors, threads, shared memory, steps per second and faults are recorded, written to soak.json and soak.csv
and plotted in soak.png. The exit code is 1 if a row was wrong or anything grew, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._make.make import make
from vecenv.engines import SupportsKill, registry
from vecenv.errors import RestartLimit
from vecenv.testing._fault_env import FaultEnv
from vecenv.testing._soak_gauges import PROC, Gauges, family
from vecenv.testing._soak_model import Model
from vecenv.testing._soak_recordings import look
from vecenv.testing._soak_report import COUNTED, Report, Sample

LENGTH = 20
TIMEOUT = 1.0
_EASY = {"raise": 4.0, "obs-nan": 1.0, "reward-nan": 1.0}
_HARD = {"kill": 1.5, "segfault": 1.5, "hang": 1.0}
_CALIBRATION = 2.0
"""At most this many seconds without faults, to measure how fast the envs are."""


class LeakingEnv(FaultEnv):
    """A FaultEnv that leaks: twice a second it takes one more of `leak` and never releases it."""

    def __init__(self, index: int, leak: str, **options: Any) -> None:
        super().__init__(index, **options)
        self.leak, self.due = leak, 0.0
        self.taken: list[Any] = []

    def step(self, action: np.int64) -> Any:
        """Count a step, and leak."""
        if time.monotonic() > self.due:
            self.due = time.monotonic() + 0.5
            self.taken.append(_TAKE[self.leak]())
        return super().step(action)


def _thread() -> threading.Thread:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    return thread


def _block() -> int:
    descriptor = os.memfd_create("vecenv-leak")
    os.posix_fallocate(descriptor, 0, 1 << 16)
    return descriptor


_TAKE: dict[str, Callable[[], Any]] = {
    "descriptors": lambda: os.open(os.devnull, os.O_RDONLY),
    "memory": lambda: bytearray(os.urandom(1 << 18)),
    "threads": _thread,
    "shared": _block,
}
LEAKS = ("none", *_TAKE)


def soak(
    minutes: float,
    out: Path | None = None,
    *,
    envs: int = 64,
    engine: str = "process",
    workers: int = 4,
    context: str = "fork",
    seed: int = 0,
    faults_per_minute: float = 30.0,
    leak: str = "none",
    record: bool = False,
    tell: Callable[[str], None] = print,
    make_envs: Callable[..., Any] = make,
    until: Callable[[Report], bool] = lambda report: False,
    sample_every: float | None = None,
    warm_up: float | None = None,
) -> Report:
    """Run envs that fail at random, and check every row and all resources.

    Args:
        minutes: duration, at most.
        out: folder for the files; None writes none.
        envs, engine, workers, context: as in `vecenv.make`. Only processes can be killed or hang: other engines get the
            other faults.
        seed: seed of envs and actions.
        faults_per_minute: about how many faults; the speed of the envs is measured first.
        leak: leak "descriptors", "memory", "threads" or "shared" on purpose, to test that the soak notices.
        record: whether a recorder writes the failed episodes to a temporary folder.
        tell: called with lines about progress.
        make_envs: makes the vector env instead of `vecenv.make`.
        until: called with the report after each sample; True ends the soak early.
        sample_every: seconds between samples; None: 180 samples, 0.5 to 10 seconds apart.
        warm_up: seconds in which growth does not count; None: a sixth of the time, at least a minute, but at most
            half of it. Memory grows until every worker was restarted some times, which takes about thirty faults.

    Returns:
        The report; `failures` is empty if nothing is wrong.
    """
    settings = {"minutes": minutes, "envs": envs, "engine": engine, "workers": workers, "context": context,
                "seed": seed, "faults_per_minute": faults_per_minute, "leak": leak, "record": record}  # fmt: skip
    report = Report(settings, max(10 * minutes, min(60.0, 30 * minutes)) if warm_up is None else warm_up)
    options: dict[str, Any] = {"engine": engine, "on_error": "restart", "autoreset": "same-step", "check_finite": "off"}
    if registry.declares(engine, "parallel"):
        options["workers"] = min(workers, envs)
    isolated = registry.declares(engine, "isolated")
    if isolated:
        options["timeout"] = TIMEOUT
    if engine in registry.having("context"):
        options["context"] = context
    before: Gauges | None = None
    with tempfile.TemporaryDirectory(prefix="vecenv-soak-") if record else contextlib.nullcontext() as folder:
        if folder is not None:
            options |= {"record": "last-episode", "record_folder": folder}
        run = _Run(report, envs, seed, partial(make_envs, **options), tell, until)
        try:
            with _interruptible():
                rate = run.speed(min(_CALIBRATION, 6 * minutes) if faults_per_minute else 0.0)
                gc.collect()
                before = Gauges.read()
                kinds = {**_EASY, **(_HARD if isolated else {})}
                report.settings["p"] = p = min(faults_per_minute / 60 / max(rate, 1.0), 0.01)
                fault = {"kind": kinds, "env": None, "p": p, "seed": seed, "length": LENGTH, "seconds": 600.0}
                factories = FaultEnv.many(envs, **fault)
                if leak != "none":
                    factories = [partial(LeakingEnv, index, leak, **fault) for index in range(envs)]
                run.steps(factories, 60 * minutes, sample_every or min(max(minutes / 3, 0.5), 10.0))
        except KeyboardInterrupt:
            report.notes.append("interrupted: this is the report so far")
            report.settings["interrupted"] = True
        except Exception as error:  # report what was found before the error
            report.failures.append(f"{type(error).__name__}: {error}")
        if folder is not None and report.samples:
            wrong, said = look(Path(folder), report.samples[-1].faults)
            report.failures += wrong
            report.notes.append(said)
    report.judge()
    if before is not None:
        report.failures += _left_behind(before)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        tell(f"written: {', '.join(map(str, report.write(out)))}")
    return report


class _Run:
    """First runs envs without faults, to measure their speed, then envs with faults."""

    def __init__(
        self,
        report: Report,
        count: int,
        seed: int,
        make_envs: Callable[..., Any],
        tell: Callable[[str], None],
        until: Callable[[Report], bool],
    ) -> None:
        self._report, self._count, self._seed, self._make = report, count, seed, make_envs
        self._tell, self._until = tell, until
        self._actions = np.random.default_rng(seed)

    def speed(self, seconds: float) -> float:
        """Steps per second without faults; rows are checked too."""
        model = Model(self._count, LENGTH)
        with contextlib.closing(self._make(FaultEnv.many(self._count, length=LENGTH))) as envs:
            self._reset(envs, model)
            started, rows = time.monotonic(), 0
            while (passed := time.monotonic() - started) < seconds or not rows:
                self._step(envs, model)
                rows += self._count
        return rows / passed

    def steps(self, factories: Sequence[Any], seconds: float, every: float) -> None:
        """Step for this many seconds, check every row, take samples."""
        model = Model(self._count, LENGTH)
        with contextlib.closing(self._make(factories)) as envs:
            started = time.monotonic()
            self._reset(envs, model)
            self._restart_workers(envs, model)
            self._sample(model, started)
            self._tell(f"{self._count} envs run for {seconds / 60:g} minutes; Ctrl-C ends this with a report")
            due, said = started + every, started
            while (now := time.monotonic()) < started + seconds:
                try:
                    self._step(envs, model)
                except RestartLimit:
                    self._reset_after_limit(envs, model)
                if now >= due:
                    self._sample(model, started)
                    due = max(due + every, now)
                    if self._until(self._report):
                        return
                if now - said >= 10:
                    said = now
                    self._print_progress()
            self._sample(model, started)

    def _reset(self, envs: Any, model: Model, again: bool = False) -> None:
        model.reset(envs.reset(seed=self._seed)[0], self._seed, again)

    def _step(self, envs: Any, model: Model) -> None:
        actions = self._actions.integers(0, 1000, self._count)
        model.step(actions, envs.step(actions))

    def _restart_workers(self, envs: Any, model: Model) -> None:
        """Kill every worker once: a forked worker that is restarted inherits more descriptors than the first one."""
        engine = envs.unwrapped.engine
        if isinstance(engine, SupportsKill):
            pids = envs.call("worker_pid")
            for pid in dict.fromkeys(pids):
                engine.kill(pids.index(pid))
                self._step(envs, model)

    def _reset_after_limit(self, envs: Any, model: Model) -> None:
        """Handle several faults of one env in a short time: that can happen, and then a reset must help."""
        model.faults["RestartLimit"] += 1
        self._seed += self._count
        self._reset(envs, model, again=True)

    def _sample(self, model: Model, started: float) -> None:
        gauges, seconds, samples = Gauges.read(), time.monotonic() - started, self._report.samples
        last = samples[-1] if samples else None
        passed = seconds - last.seconds if last else 0.0
        rate = (model.rows - last.rows) / passed if last and passed else 0.0
        samples.append(Sample(seconds, gauges, model.rows, rate, dict(model.faults)))

    def _print_progress(self) -> None:
        sample = self._report.samples[-1]
        self._tell(
            f"{sample.seconds / 60:6.1f} min  {sample.rows:>13,} rows  {sample.rate:>9,.0f} steps/s  "
            f"{sum(sample.faults.values()):>5} faults  {sample.gauges.memory / 2**20:8.1f} MiB  "
            f"{sample.gauges.descriptors} descriptors  {sample.gauges.threads} threads"
        )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _left_behind(before: Gauges, seconds: float = 3.0) -> list[str]:
    """Resources that are still in use after everything was closed."""
    gc.collect()  # shared memory is released with the last array in it
    deadline = time.monotonic() + seconds
    while len(family()) > before.processes and time.monotonic() < deadline:
        time.sleep(0.02)
    after = Gauges.read()
    return [
        f"{name} after close(): {getattr(after, name)}, before: {getattr(before, name)}"
        for name in COUNTED
        if getattr(after, name) > getattr(before, name)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m vecenv.testing.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, required=True, help="how long")
    parser.add_argument("--envs", type=int, default=64, help="number of envs (64)")
    parser.add_argument("--engine", choices=registry.python_engines(), default="process", help="engine to test")
    parser.add_argument("--workers", type=int, default=4, help="number of processes or threads (4)")
    parser.add_argument("--context", choices=("fork", "forkserver", "spawn"), default="fork", help="start method")
    parser.add_argument("--seed", type=int, default=0, help="seed of envs and actions (0)")
    parser.add_argument("--faults-per-minute", type=float, default=30.0, help="about how many faults (30)")
    parser.add_argument("--leak", choices=LEAKS, default="none", help="leak on purpose, to test that it is noticed")
    parser.add_argument("--record", action="store_true", help="record the episodes that fail, to a temporary folder")
    parser.add_argument(
        "--out", type=Path, default=Path("soak"), help="folder for soak.json, soak.csv, soak.png (soak)"
    )
    options = vars(parser.parse_args(arguments))
    for name, least in (("minutes", 0.05), ("envs", 1), ("workers", 1), ("seed", 0), ("faults_per_minute", 0)):
        if not options[name] >= least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, got {options[name]}")
    if not PROC.is_dir():
        parser.error("a soak reads /proc, which this system does not have")
    report = soak(options.pop("minutes"), options.pop("out"), **options, tell=partial(print, flush=True))
    print(*report.lines(), sep="\n", flush=True)
    return 1 if report.failures else 130 if report.settings.get("interrupted") else 0


if __name__ == "__main__":
    sys.exit(main())
