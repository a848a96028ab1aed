"""The columns that every batch has: one number, flag or short array per row. A new column is one line here.

What is allocated, what a slice of rows has, what Ray actors send back and the first values all follow from these lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

import numpy as np

from vecenv._batch.seeding import NO_SEED
from vecenv._batch.starts import WORDS


@dataclass(frozen=True)
class Column:
    """What is known of a column.

    Attributes:
        dtype: of its elements.
        shape: of one row.
        initial: value of every row before its first op.
        travels: an actor on another machine sends it back with its results.
    """

    dtype: Any
    shape: tuple[int, ...] = ()
    initial: int = 0
    travels: bool = False


@dataclass(kw_only=True)
class RowColumns:
    """The columns, as attributes. Each is an array whose first axis is the rows."""

    op: Annotated[np.ndarray, Column(np.uint8)]
    """What the row is to do, or did last. The front writes it before `send`; engines leave it as it is."""
    seed: Annotated[np.ndarray, Column(np.int64, initial=NO_SEED, travels=True)]
    """Seed of the next RESET, -1 for none; used once."""
    done: Annotated[np.ndarray, Column(np.bool_, travels=True)]
    """Whether the row's episode is over: the last op ended it, and did not begin the next one as a ROLL does."""
    episode_return: Annotated[np.ndarray, Column(np.float64, travels=True)]
    """Sum of rewards of the episode that the last op belongs to. Starts anew with the first op of the next episode."""
    episode_length: Annotated[np.ndarray, Column(np.int64, travels=True)]
    """Number of steps of that episode."""
    last_seed: Annotated[np.ndarray, Column(np.int64, initial=NO_SEED, travels=True)]
    """Seed of the row's last seeded RESET, -1 if there was none."""
    given_seed: Annotated[np.ndarray, Column(np.int64, initial=NO_SEED, travels=True)]
    """Seed that `reset` or an evaluation gave the row last, -1 for none. Seeds of restarts follow from it alone."""
    restarts: Annotated[np.ndarray, Column(np.int64, travels=True)]
    """How often the row's env was built again after a failure."""
    start: Annotated[np.ndarray, Column(np.uint64, (WORDS,))]
    """How the row's episode began, if the row is recorded."""
    reward: Annotated[np.ndarray, Column(np.float64, travels=True)]
    """Reward of the last op; 0 after a RESET."""
    terminated: Annotated[np.ndarray, Column(np.bool_, travels=True)]
    """Whether the last op ended an episode by termination; False after a RESET."""
    truncated: Annotated[np.ndarray, Column(np.bool_, travels=True)]
    """Whether the last op ended an episode by truncation; False after a RESET."""
    start_kind: Annotated[np.ndarray, Column(np.uint8)]
    """Whether the row is recorded, and what `start` holds; see `_batch/starts.py`."""


COLUMNS: dict[str, Column] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(RowColumns, include_extras=True).items()
}
"""All columns by name, in the order in which they are laid out in memory, between actions and observations.

What a recorder copies is together: actions and ops; rewards, flags, kinds of starts and observations.
"""
TRAVELLING = tuple(name for name, each in COLUMNS.items() if each.travels)
"""Names of the columns that actors send back, besides observations."""
