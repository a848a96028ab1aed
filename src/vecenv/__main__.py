"""`python -m vecenv`: 4,096 environments, stepped by us and by Gymnasium in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

import vecenv
from vecenv.errors import MissingExtra

ENV = "CartPole-v1"
COUNT = 4096
ASYNC_COUNT = 64
"""Gymnasium starts a process per env, so its async vector env gets fewer of them."""
SECONDS = 3.0


@dataclass(frozen=True)
class Contestant:
    """A way to run the environments."""

    name: str
    count: int
    build: Callable[[], Any]


CONTESTANTS = (
    Contestant("vecenv compiled", COUNT, lambda: vecenv.make(ENV, COUNT)),
    Contestant("vecenv compiled, fast", COUNT, lambda: vecenv.make(ENV, COUNT, precision="fast")),
    Contestant("vecenv sync", COUNT, lambda: vecenv.make(ENV, COUNT, engine="sync")),
    Contestant("vecenv process", COUNT, lambda: vecenv.make(ENV, COUNT, engine="process")),
    Contestant("gymnasium sync", COUNT, lambda: gymnasium.make_vec(ENV, COUNT, "sync")),
    Contestant("gymnasium async", ASYNC_COUNT, lambda: gymnasium.make_vec(ENV, ASYNC_COUNT, "async")),
    Contestant("vecenv process", ASYNC_COUNT, lambda: vecenv.make(ENV, ASYNC_COUNT, engine="process")),
)


def main() -> None:
    """Step each contestant for a few seconds and print a table."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Table
    except ImportError as error:
        raise MissingExtra("the progress bar needs rich: pip install 'vecenv[bench]'") from error

    table = Table(title=f"{ENV}, random actions, resets included")
    for heading in ("", "envs", "start (s)", "steps/s"):
        table.add_column(heading, justify="left" if not heading else "right")
    columns = (
        TextColumn("{task.description:21}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        for contestant in CONTESTANTS:
            task = progress.add_task(contestant.name, total=SECONDS, rate="")

            def show(seconds: float, rate: float, task: Any = task) -> None:
                progress.update(task, completed=seconds, rate=f"{rate:12,.0f} steps/s")

            started, rate = measure(contestant, show)
            progress.update(task, completed=SECONDS)
            table.add_row(contestant.name, f"{contestant.count:,}", f"{started:.2f}", f"{rate:,.0f}")
    Console().print(table)


def measure(contestant: Contestant, show: Callable[[float, float], None]) -> tuple[float, float]:
    """Seconds to start, and steps per second over SECONDS."""
    started = time.perf_counter()
    envs = contestant.build()
    try:
        envs.reset(seed=0)
        envs.action_space.seed(0)
        actions = [envs.action_space.sample() for _ in range(16)]
        ready = time.perf_counter()
        exchanges, shown = 0, 0.0
        while (spent := time.perf_counter() - ready) < SECONDS:
            envs.step(actions[exchanges % len(actions)])
            exchanges += 1
            if spent - shown > 0.1:  # drawing takes longer than some of these steps
                shown = spent
                show(spent, exchanges * contestant.count / spent)
        return ready - started, exchanges * contestant.count / spent
    finally:
        envs.close()


if __name__ == "__main__":
    main()
