"""What engines of Python envs have in common."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vecenv._batch.batch import Batch, Op, Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import Fault
from vecenv._util.forks import HERE, only_here
from vecenv.engines.facts import EnvFacts, merge_facts
from vecenv.engines.pending import Home, nowhere
from vecenv.engines.python.envs import Factory, build_envs, close_quietly
from vecenv.engines.python.runner import RowRunner
from vecenv.errors import NotResetError


def check_resets(batch: Batch, rows: Rows) -> None:
    """Raise unless the op of these rows, whose envs are lost and about to be built again, is a RESET."""
    others = rows[batch.op[rows] != Op.RESET]
    if len(others):
        raise NotResetError(f"env {others[0]} is gone with its worker; reset() builds it again")


def warn_of(complaints: Iterable[str]) -> None:
    """Warn the user of errors while envs were closed."""
    for complaint in complaints:
        warnings.warn(complaint, RuntimeWarning, stacklevel=2)


def hand_over(batch: Batch, part: Any, rows: Iterable[int], first: int) -> None:
    """Move reset options and raw actions from the whole batch to `rows` of a part, which begins at row `first`."""
    for ours, theirs in ((batch.options, part.options), (batch.raw_actions, part.raw_actions)):
        if ours:
            theirs.update({row: ours.pop(first + row) for row in rows if first + row in ours})


def results_or_raise(results: dict[int, Any], home: Home = nowhere) -> list[Any]:
    """The values in the order of rows; raises the EnvError of the first that is a Fault, naming its worker and pid."""
    for row in sorted(results):
        if type(results[row]) is Fault:  # not by `isinstance`, which asks the object itself
            raise results[row].to_error(row, *home(row))
    return [results[row] for row in sorted(results)]


class LocalEngine:
    """Envs in this process, cut into `parts` blocks of rows with a RowRunner each."""

    name = "local"
    watched = False
    """Whether envs run in threads of ours: others may ask which env is running, and forks of such threads are ended."""

    def __init__(
        self, factories: Sequence[Factory], *, parts: int, observation_mode: Any, on_error: Any, origin: int = 0
    ) -> None:
        self._origin = origin
        self.envs = build_envs(factories)
        try:
            self.facts = merge_facts([EnvFacts.of(env) for env in self.envs], observation_mode)
            self.batch = Batch.allocate(self.facts.observation_layout, self.facts.action_layout, len(self.envs))
            self._bounds = split(len(self.envs), parts)
            self._runners = [self._runner(factories, on_error, start, stop) for start, stop in self._bounds]
        except BaseException:
            for env in self.envs:
                close_quietly(env)
            raise

    def _runner(self, factories: Sequence[Factory], on_error: Any, start: int, stop: int) -> RowRunner:
        # The calling thread runs the batch itself. Threads of ours have views with mailboxes of their own: the front
        # looks through those of the batch while they run.
        batch = self.batch.rows(start, stop) if self.watched else self.batch
        return RowRunner(
            self.envs if stop - start == len(self.envs) else self.envs[start:stop],
            batch,
            Clocks.allocate(stop - start),
            first=start,
            origin=self._origin,
            factories=factories[start:stop],
            on_error=on_error,
            watched=self.watched,
            here=only_here() if self.watched else HERE,
        )

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        return self._each(lambda runner: runner.call(range(len(runner.envs)), name, args, kwargs))

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        self._each(lambda runner: runner.set_attr(name, dict(enumerate(values[runner.first :][: len(runner.envs)]))))

    def clocks(self) -> list[tuple[slice, Clocks]]:
        return [(slice(*bounds), runner.clocks) for bounds, runner in zip(self._bounds, self._runners, strict=True)]

    def _each(self, ask: Callable[[RowRunner], dict[int, Any]]) -> list[Any]:
        """Ask the envs of all parts; see `results_or_raise`."""
        return results_or_raise(
            {runner.first + row: found for runner in self._runners for row, found in ask(runner).items()}
        )


def split(count: int, parts: int) -> list[tuple[int, int]]:
    """Cut 0 ... count - 1 into contiguous parts whose sizes differ by at most one."""
    edges = [part * count // parts for part in range(parts + 1)]
    return list(itertools.pairwise(edges))
