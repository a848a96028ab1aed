"""Reset options by row: those that are on their way, and those that the current episode began with."""

from __future__ import annotations

from typing import Any

from vecenv._batch.batch import Batch
from vecenv.engines.python.factories import Renewal
from vecenv.engines.recording.copies import copied_value, is_data


class KeptOptions:
    """Copies of options, which are sent with an op and used by the next reset, whichever op that is."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._sent: dict[int, Any] = {}
        """By row, sent and not used yet."""
        self._used: dict[int, Any] = {}
        """By row, of the current episode."""
        self._built_with: dict[int, dict[str, Any]] = {}
        """Constructor arguments by row that options brought, for as long as the env lives."""
        self._restarts = batch.restarts.copy()

    @property
    def any(self) -> bool:
        """Whether there ever were any."""
        return bool(self._sent or self._used or self._built_with)

    def sending(self, rows: list[int]) -> None:
        """The options of these rows are about to be sent."""
        given = self._batch.options
        self._sent.update((row, copied_value(given[row])) for row in rows if row in given)

    def begun(self, rows: list[int]) -> None:
        """These rows began an episode."""
        for row in rows:
            options = self._sent.pop(row, None)
            if self._batch.restarts[row] != self._restarts[row]:
                self._built_with.pop(row, None)
                self._restarts[row] = self._batch.restarts[row]
            if isinstance(options, Renewal):
                self._built_with[row], options = options.kwargs, options.options
            self._used[row] = options

    def lost(self, rows: tuple[int, ...]) -> None:
        """The envs of these rows are gone, and what was sent to them."""
        for row in rows:
            self._built_with.pop(row, None)
            self._sent.pop(row, None)

    def failed(self, row: int, was_reset: bool) -> None:
        """The op of a row failed; if it had come to its reset, its env was built with what the options brought."""
        options = self._sent.pop(row, None)
        if was_reset and isinstance(options, Renewal):
            self._built_with[row] = options.kwargs

    def of_current(self, row: int) -> dict[str, Any]:
        """The options of the current episode as data, for a recording."""
        return _described(self._used.get(row), self._built_with.get(row))

    def of_next(self, row: int) -> dict[str, Any]:
        """The options that the next episode would begin with."""
        options, built_with = self._sent.get(row), self._built_with.get(row)
        if isinstance(options, Renewal):
            return _described(options.options, options.kwargs)
        return _described(options, built_with)

    def of_none(self, row: int) -> dict[str, Any]:
        """The entry for a reset without options."""
        return _described(None, self._built_with.get(row))


def _described(options: Any, built_with: dict[str, Any] | None) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": "none"} if options is None else {"kind": "value", "value": options}
    if built_with:
        described["build_kwargs"] = built_with
    problems: list[str] = []
    if is_data(described, "options", problems):
        return described
    return {"kind": "unknown", "why": f"its reset options are no data: {problems[0]}"}
