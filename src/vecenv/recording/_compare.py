"""Compare what an env returns now with what was recorded, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from vecenv._batch.batch import Batch
from vecenv._batch.layout import Layout
from vecenv.engines.recording.digests import digest_rows
from vecenv.engines.recording.recording import Column, Recording
from vecenv.errors import ConfigError

TOLERANCE = 1e-3
"""Relative and absolute tolerance for numbers of a kernel with precision="fast"."""


def is_fast(recording: Recording) -> bool:
    """Whether the recorded numbers may differ in some bits from those of Python."""
    return recording.build.get("precision") == "fast"


@dataclass(frozen=True)
class Difference:
    """The first value of a replay that differs from the recording.

    Attributes:
        step: number of steps before it; 0: the result of the reset.
        field: "obs" (with the key of a Dict: "obs.camera"), "reward", "terminated" or "truncated".
        got, want: the value now, and the recorded one. Both are digests, as text, if only the digest of an observation
            was recorded.
    """

    step: int
    field: str
    got: Any
    want: Any

    def __str__(self) -> str:
        when = "after the reset" if self.step == 0 else f"after step {self.step}"
        return f"{self.field} {when}: {self._values()}"

    def _values(self) -> str:
        got, want = self.got, self.want
        if not (isinstance(got, np.ndarray) and got.size > 1 and got.shape == np.shape(want)):
            return f"{_brief(got)} now, {_brief(want)} in the recording"
        places = np.argwhere(~_same_numbers(got, want))
        first = tuple(places[0].tolist())
        others = f", and {len(places) - 1} more of {got.size} numbers" if len(places) > 1 else ""
        where = ", ".join(map(str, first))
        return f"[{where}] is {_brief(got[first])} now, {_brief(want[first])} in the recording{others}"


class Comparison:
    """Compares a batch of one row with a recording. Raises ConfigError if the env has other spaces."""

    def __init__(self, recording: Recording, batch: Batch) -> None:
        self._recording, self._batch = recording, batch
        self._same = _nearly if is_fast(recording) else _same
        _check_fits(batch.action_layout, recording.action_paths, recording.actions, "actions")
        plain = [
            None if digested else column for column, digested in zip(recording.obs, recording.digested, strict=True)
        ]
        _check_fits(batch.observation_layout, recording.obs_paths, plain, "observations")

    def first_difference(self, step: int) -> Difference | None:
        """The first difference after this step (0: the reset); None if there is none or nothing was recorded."""
        for field, got, want in self._fields(step):
            if not self._same(got, want):
                return Difference(step, field, got, want)
        return None

    def not_finite(self) -> str | None:
        """The first number that is NaN or infinite, as text; None if all are finite."""
        paths = self._recording.obs_paths
        obs = zip(paths, self._batch.obs, strict=True)
        columns = [*((_named(path), column) for path, column in obs), ("reward", self._batch.reward)]
        for name, column in columns:
            if column.dtype.kind in "fc" and not np.isfinite(column[0]).all():
                (*place,) = np.argwhere(~np.isfinite(column[0]))[0].tolist() if column[0].ndim else ()
                return f"{name}{place or ''} is {column[(0, *place)]}"
        return None

    def _fields(self, step: int) -> Iterator[tuple[str, Any, Any]]:
        recording, batch = self._recording, self._batch
        if 0 < step <= len(recording.reward):
            yield "terminated", bool(batch.terminated[0]), bool(recording.terminated[step - 1])
            yield "truncated", bool(batch.truncated[0]), bool(recording.truncated[step - 1])
            yield "reward", batch.reward[0].copy(), recording.reward[step - 1]
        columns = zip(recording.obs_paths, recording.obs, recording.digested, batch.obs, strict=True)
        for path, then, digested, now in columns:
            if then is None or step >= len(then):
                continue
            if digested:
                yield _named(path), _shown(digest_rows(now[:1])[0]), _shown(then[step])
            else:
                yield _named(path), now[0] if now.dtype == object else now[0].copy(), then[step]


def _check_fits(layout: Layout, paths: Sequence[str], columns: Sequence[Column], what: str) -> None:
    ours = [(leaf.path, "by value" if leaf.by_value else f"{leaf.dtype} {leaf.shape}") for leaf in layout.leaves]
    theirs = [(path, _kind(column)) for path, column in zip(paths, columns, strict=True)]
    for (path, kind), (wanted_path, wanted) in zip(ours, theirs, strict=len(ours) == len(theirs)):
        if path != wanted_path or (wanted is not None and kind != wanted):
            raise ConfigError(
                f"this is not the env that was recorded: its {what} have {_leaf(path, kind)}, the recording has "
                f"{_leaf(wanted_path, wanted)}; pass the env it was made with"
            )
    if len(ours) != len(theirs):
        raise ConfigError(
            f"this is not the env that was recorded: its {what} have {len(ours)} parts, the recording has "
            f"{len(theirs)}; pass the env it was made with"
        )


def _kind(column: Column) -> str | None:
    if column is None:
        return None
    return f"{column.dtype} {column.shape[1:]}" if isinstance(column, np.ndarray) else "by value"


def _leaf(path: str, kind: str | None) -> str:
    return f"{path!r}: {kind}" if path else str(kind)


def _same(got: Any, want: Any) -> bool:
    if isinstance(got, (np.ndarray, np.generic)) and got.dtype != object and isinstance(want, (np.ndarray, np.generic)):
        return got.dtype == want.dtype and got.shape == want.shape and bool(np.all(_same_numbers(got, want)))
    return bool(data_equivalence(got, want, exact=True))


def _nearly(got: Any, want: Any) -> bool:
    if isinstance(got, (np.ndarray, np.generic)) and got.dtype.kind == "f" and got.shape == np.shape(want):
        return bool(np.all(np.isclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)))
    return _same(got, want)


def _same_numbers(got: Any, want: Any) -> np.ndarray:
    """Where the bits are equal. Any two NaNs count as equal: their signs differ between processors."""
    same = np.asarray(got == want)
    if np.asarray(got).dtype.kind not in "fc":
        return same
    return (same & (np.signbit(np.real(got)) == np.signbit(np.real(want)))) | (np.isnan(got) & np.isnan(want))


def _named(path: str) -> str:
    return f"obs.{path}" if path else "obs"


def _shown(digest: np.uint64) -> str:
    return f"digest {int(digest):016x}"


def _brief(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)) and np.ndim(value) == 0 and value.dtype != object:
        return str(value)
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
