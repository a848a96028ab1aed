"""The columns that native code works on, and the table of their addresses: its one argument. For every backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv._batch.random_state import WORDS as RNG_WORDS
from vecenv.kernel.language.fields import Field

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel

POLICY = "POLICY"
"""The slot of the streams that a policy draws from."""


@dataclass(frozen=True)
class Slot:
    """A column that native code works on.

    Attributes:
        name: as in the text.
        dtype: of its elements.
        shape: of one row; None for a parameter array, whose shape is known when the env is made.
        dimensions: number of dimensions of one row.
        timed: has one layer per step in a rollout.
        shared: is memory of the thread, the same for all rows that it runs.
        sized: its shape is not part of the code, but in the table.
        single: has one row, the same for all envs and threads.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = ()
    dimensions: int = 0
    timed: bool = False
    shared: bool = False
    sized: bool = False
    single: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a slot with a known shape."""
        assert self.shape is not None
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


_ORDERS = frozenset({"OP", "SEED", "DONE", "FINISHED"})
_SCRATCH = frozenset({"FALLBACK", "TODO", "WHO"})
_OUTCOMES = frozenset({"LAST_SEED", "RETURN", "LENGTH"})


def is_order(name: str) -> bool:
    """Whether the caller writes this column before an exchange."""
    return name in _ORDERS or name.startswith("A_")


def is_outcome(slot: Slot) -> bool:
    """Whether the caller reads this column after an exchange."""
    return slot.name in _ORDERS | _OUTCOMES or is_result(slot)


def is_result(slot: Slot) -> bool:
    """Whether this column has what a step brought: a rollout has a layer of it for each step."""
    return slot.timed and not slot.name.startswith("A_")


def is_final(name: str) -> bool:
    """Whether this column is about the end of an episode: it is written where a ROLL ended one."""
    return name.startswith(("F_", "FI_")) or name == "FM"


def is_lasting(name: str) -> bool:
    """Whether this column is part of what an env consists of; others are orders, actions, finals or scratch."""
    kept = name == "DONE" or not is_order(name)
    return kept and name not in _SCRATCH and not is_final(name) and not name.startswith("C_") and name != "FAULT"


def column_words(name: str) -> str:
    """What a column holds, in words for the user."""
    kind, _, own = name.partition("_")
    words = {"S": f"field {own!r}", "P": f"parameter {own!r}", "B": f"parameter {own!r}"}
    of_spaces = {"A": "the action", "O": "the observation", "C": "the observation", "F": "the final observation"}
    return {**words, **of_spaces}.get(kind, name.lower().replace("_", " "))


def slots_of(kernel: Kernel, observation: Layout, action: Layout, policy_draws: bool = False) -> list[Slot]:
    """All columns, in the order of the table of addresses; `policy_draws` adds the streams of a policy."""
    several = bool(kernel.shared)  # the same code serves models of several sizes

    def fixed(name: str, dtype: Any, shape: tuple[int, ...] = (), timed: bool = False) -> Slot:
        return Slot(name, np.dtype(dtype), shape, len(shape), timed)

    def shaped(name: str, dtype: Any, shape: tuple[int, ...], timed: bool = False, shared: bool = False) -> Slot:
        return Slot(name, np.dtype(dtype), shape, len(shape), timed, shared, sized=several and len(shape) > 0)

    def parameter(prefix: str, field: Field) -> Slot:
        shape = None if field.shape else ()
        dimensions, sized = len(field.shape), shape is None
        return Slot(f"{prefix}_{field.name}", field.dtype, shape, dimensions, sized=sized, single=field.shared)

    slots = [
        fixed("OP", np.uint8),
        fixed("SEED", np.int64),
        fixed("LAST_SEED", np.int64),
        fixed("FALLBACK", np.int64),
        fixed("RNG", np.uint64, (RNG_WORDS,)),
        fixed("ELAPSED", np.int64),
        fixed("DONE", np.bool_),
        fixed("FINISHED", np.bool_),
        fixed("OVERRIDE", np.uint8),
        fixed("TODO", np.bool_),
        fixed("WHO", np.int64),
        fixed("REWARD", np.float64, timed=True),
        fixed("TERMINATED", np.bool_, timed=True),
        fixed("TRUNCATED", np.bool_, timed=True),
        fixed("RETURN", np.float64),
        fixed("LENGTH", np.int64),
    ]
    slots += [
        shaped(f"S_{field.name}", field.dtype, field.shape, shared=field.name in kernel.shared)
        for field in kernel.state.values()
    ]
    slots += [parameter("P", field) for field in kernel.params.values()]
    slots += [parameter("B", field) for field in kernel.params.values() if not field.shared]
    slots += [fixed(f"A_{k}", leaf.dtype, leaf.shape, timed=True) for k, leaf in enumerate(action.leaves)]
    for name in ("O", "F"):
        slots += [
            shaped(f"{name}_{k}", leaf.dtype, leaf.shape, timed=True) for k, leaf in enumerate(observation.leaves)
        ]
        infos = [kernel.state[info] for info in kernel.info]
        slots += [shaped(f"{name}I_{field.name}", field.dtype, field.shape, timed=True) for field in infos]
        if "action_mask" in kernel.methods:
            slots.append(fixed(f"{name}M", np.int8, (int(action.space.n),), timed=True))  # type: ignore[attr-defined]
    slots += [shaped(f"C_{k}", leaf.dtype, leaf.shape) for k, leaf in enumerate(observation.leaves)]
    slots += [fixed(POLICY, np.uint64, (RNG_WORDS,))] if policy_draws else []
    return slots


def table_size(slots: list[Slot]) -> int:
    """Words of the table: address and bytes per layer of each slot, shapes that are not in the code, the time limit."""
    return 2 * len(slots) + sum(slot.dimensions for slot in slots if slot.sized) + 1


def fill_table(table: np.ndarray, slots: list[Slot], columns: Mapping[str, np.ndarray], limit: int | None) -> None:
    """Write addresses of the columns of all rows into the table; those that are shared are left out."""
    extra = 2 * len(slots)
    for number, slot in enumerate(slots):
        if slot.sized:
            table[extra : extra + slot.dimensions] = slot.shape or columns[slot.name].shape[1:]
            extra += slot.dimensions
        if slot.shared:
            continue
        column = columns[slot.name]
        assert column.dtype == slot.dtype, slot.name
        assert column.flags.c_contiguous, slot.name
        table[2 * number] = column.ctypes.data
        table[2 * number + 1] = 0
    table[-1] = 2**62 if limit is None else limit


INTERRUPTED = -(2**63)
"""What native code returns if a loop of the kernel was interrupted."""


def interrupted() -> KeyboardInterrupt:
    """The error to raise then. Usually the handler of the signal has raised before."""
    return KeyboardInterrupt("a loop of native code that did not end was interrupted; reset the envs")


ORDERS = ("table", "rows", "start", "stop", "alive", "over", "steps", "check")
"""The words that a call of native code reads: addresses of the table and of a list of rows (0: a range), the first row
and the row after the last, the ops where an episode goes on and where it is over (0: the column of ops says), how many
steps, and whether to check the actions first."""
