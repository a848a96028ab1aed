"""The compiled engine with pictures: kernels that have no `render` are drawn by Gymnasium's env of the same id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from vecenv._batch.batch import Rows
from vecenv._batch.layout import Columns
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.envs._frames import Renderer, frame_metadata
from vecenv.errors import ConfigError
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Record
from vecenv.kernel.language.python import KernelEnv

_ACTION, _KNOWN, _ORIENTATION = "DRAWN_ACTION", "DRAWN_KNOWN", "DRAWN_ORIENTATION"


class DrawnEngine(CompiledEngine):
    """Rows of a kernel that Gymnasium's env of its id draws, the same frames that this env would draw itself.

    Pictures show more than the state: the last action, and where a taxi looked in its last picture. Both are kept here,
    and are part of a row's state (`get_rows`).

    Args:
        kernel: one that `is_drawn_by_gymnasium`.
        count: number of rows.
        **options: as for `CompiledEngine`; `render_mode` is not None.
    """

    def __init__(self, kernel: Kernel, count: int, **options: Any) -> None:
        super().__init__(kernel, count, **options)
        self._renderer: Renderer | None = None
        action = self.batch.actions[0]
        self._drawn = {
            _ACTION: np.zeros_like(action),
            _KNOWN: np.zeros(count, np.bool_),
            _ORIENTATION: np.zeros(count, np.int64),
        }

    # --- what pictures show besides the state ------------------------------------------------------------------------

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Run every row at once."""
        ended = super().exchange_all(alive, over, rotate)
        if ended >= 0:
            self._note(self._rows)
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
        over_once = (out["TERMINATED"] | out["TRUNCATED"]).any(axis=0)
        self._drawn[_ORIENTATION][over_once] = 0
        self._note(self._rows)
        return out

    def _run_some(self, rows: Rows) -> None:
        super()._run_some(rows)
        self._note(rows)

    def _note(self, rows: Rows) -> None:
        """Keep what these rows have just done."""
        drawn = self._drawn
        drawn[_ACTION][rows] = self.batch.actions[0][rows]
        drawn[_KNOWN][rows] = self._columns["ELAPSED"][rows] > 0
        drawn[_ORIENTATION][rows] *= drawn[_KNOWN][rows]

    def get_rows(self, rows: Rows) -> dict[str, np.ndarray]:
        return {**super().get_rows(rows), **{name: column[rows] for name, column in self._drawn.items()}}

    def set_rows(self, rows: Rows, columns: Mapping[str, np.ndarray]) -> None:
        """As of engines; a state of envs that are not drawn has no last action."""
        super().set_rows(rows, columns)
        known = all(_fits(columns.get(name), column, len(rows)) for name, column in self._drawn.items())
        for name, column in self._drawn.items():
            column[rows] = columns[name] if known else 0
        discrete = self.facts.single_action_space
        if known and isinstance(discrete, Discrete):  # pictures are chosen by these numbers
            action, orientation = self._drawn[_ACTION], self._drawn[_ORIENTATION]
            np.clip(action, discrete.start, discrete.start + discrete.n - 1, out=action)
            np.clip(orientation, 0, 3, out=orientation)

    # --- pictures ----------------------------------------------------------------------------------------------------

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        """As for kernels; `render` draws all rows."""
        if name == "render":
            return self.draw(self._rows)
        return super().call(name, args, kwargs, timeout)

    def draw(self, rows: Rows) -> list[Any]:
        """A frame of each of these rows."""
        if self._renderer is None:
            assert self.facts.render_mode is not None
            self._renderer = Renderer(self.kernel.id, self.facts.render_mode)
        return [self._frame(self._renderer, row) for row in rows.tolist()]

    def _frame(self, renderer: Renderer, row: int) -> Any:
        params, state = self._parts_of(row)
        drawn = self._drawn
        action = drawn[_ACTION][row] if drawn[_KNOWN][row] else None
        renderer.orientation = drawn[_ORIENTATION].item(row)
        try:
            frame = renderer.draw(params, Record(self.kernel.state, state), action)
        except ImportError as error:
            raise ConfigError(f"frames of {self.kernel.id} need pygame ({error}); pip install pygame") from error
        drawn[_ORIENTATION][row] = renderer.orientation
        return frame

    def close(self, timeout: float = 5.0) -> None:
        super().close(timeout)
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _metadata(self, render_mode: str | None) -> dict[str, Any]:
        return frame_metadata(self.kernel)

    def _snapshot(
        self,
        params: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray] | None = None,
        render_mode: str | None = None,
    ) -> KernelEnv:
        return super()._snapshot(params, state)  # it cannot draw itself


def _fits(given: Any, column: np.ndarray, count: int) -> bool:
    return (
        isinstance(given, np.ndarray)
        and given.dtype == column.dtype
        and given.shape[1:] == column.shape[1:]
        and len(given) in (1, count)
    )
