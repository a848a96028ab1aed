"""The MuJoCo engine: tasks as native code, with a simulation per thread and a state per env."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vecenv._batch.batch import Batch, Mail, Rows
from vecenv._batch.layout import Columns
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.kernel.backend import NativeCode
from vecenv.mujoco._env import TaskEnv, divergence_info
from vecenv.mujoco._kernel import TaskKernel


class MujocoEngine(CompiledEngine):
    """Rows of a task.

    An env is a row of numbers, MuJoCo's state; a thread loads it into its own simulation, steps that, and writes the
    state back. So memory grows by kilobytes per env, and no result depends on which thread ran a row.

    Args:
        kernel: the task with its model.
        count: number of rows.
        threads: how many run rows side by side.
        **options: as for `CompiledEngine`.

    Attributes:
        warnings: see `SupportsWarnings`.
    """

    name = "mujoco"
    kernel: TaskKernel

    def __init__(self, kernel: TaskKernel, count: int, *, threads: int = 1, **options: Any) -> None:
        threads = min(threads, count)
        self._simulators = [kernel.simulator() for _ in range(threads)]
        self._painter: TaskEnv | None = None
        self.warnings: list[str] = []
        super().__init__(kernel, count, threads=threads, **options)
        self.batch.step_info, self.batch.elapsed = kernel.step_info, self._columns["ELAPSED"]
        self._tuner.together, self._tuner.trying = threads > 1, False
        self._diverged = self._columns["S_diverged"]

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Run every row at once."""
        ended = super().exchange_all(alive, over, rotate)
        if np.count_nonzero(self._diverged):  # a quarter of the time of any()
            self._report()
        return ended

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Run all rows `steps` times in one native call."""
        out = super().rollout(actions, steps, alive, over, policy, streams)
        if self._diverged.any():
            self._report()
            self.batch.mail.clear()  # a rollout has no place for it
        return out

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        """As for kernels; `render` draws all rows."""
        if name == "render":
            return self.draw(self._rows)
        return super().call(name, args, kwargs, timeout)

    def draw(self, rows: Rows) -> list[Any]:
        """A frame of each of these rows, by Gymnasium's renderer."""
        if self._painter is None:
            self._painter = TaskEnv(self.kernel, self.facts.render_mode)
        frames = []
        for row in rows.tolist():
            self._painter.continue_from(*self._parts_of(row))
            frames.append(self._painter.render())
        return frames

    def close(self, timeout: float = 5.0) -> None:
        super().close(timeout)
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    def _snapshot(
        self,
        params: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray] | None = None,
        render_mode: str | None = None,
    ) -> TaskEnv:
        env = TaskEnv(self.kernel, render_mode)
        if state is None:
            env.adopt(params)
        else:
            env.continue_from(params, state)
        return env

    def _compile(self, policy: Callable[..., Any] | None = None) -> Any:
        if policy is not None:
            return super()._compile(policy)
        leaves = self.facts.observation_layout.leaves
        given = (column.shape[1:] for column in self.parameters.values())
        shapes = (self.precision, *(leaf.shape for leaf in leaves), *given)
        natives = self.kernel.natives
        if shapes not in natives:
            self._try_out()  # code from the disk was tried out with another model, of other sizes
            natives[shapes] = super()._compile()
        return natives[shapes]

    def _make_tables(self, code: NativeCode, columns: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        tables = []
        places = {slot.name: 2 * number for number, slot in enumerate(code.slots)}
        for simulator in self._simulators:
            table = super()._make_tables(code, columns)[0]
            table[places["S_simulator"]] = simulator.words.ctypes.data
            for name, array in self.kernel.memory(simulator).items():
                table[places[f"S_{name}"]] = array.ctypes.data
            tables.append(table)
        return tables

    def _run_some(self, rows: Rows) -> None:
        orders = np.array([0, rows.ctypes.data, 0, len(rows), 0, 0, 1, 0], np.int64)
        started = time.perf_counter_ns()
        self._together(self._calls, orders, self._tables)
        self._busy += time.perf_counter_ns() - started
        self._rows_run += len(rows)
        if self._diverged.any():
            self._report()

    def _report(self) -> None:
        report_divergence(self.kernel, self._columns, self.batch, self.warnings)


def report_divergence(kernel: TaskKernel, columns: Mapping[str, np.ndarray], batch: Batch, warnings: list[str]) -> None:
    """Put what is known about simulations that have gone wrong into infos and warnings, and forget it."""
    diverged = columns["S_diverged"]
    for row in np.flatnonzero(diverged).tolist():
        info = divergence_info(kernel, diverged.item(row), columns["S_failed"][row])
        mail = batch.mail.setdefault(row, Mail())
        if columns["ELAPSED"][row]:
            mail.info["diverged"] = info
        else:
            mail.final_info = {**(mail.final_info or {}), "diverged": info}
        warnings.append(
            f"the simulation of env {row} has gone wrong (bad {info['kind']}) and its episode is truncated; "
            "infos['diverged'] has the state that it came from"
        )
    diverged[...] = 0
