"""The compiled row loop: text of the native function that runs ops on rows, written for one kernel.

It mirrors `engines/python/runner.py`, the loop for Python envs. Rows are taken in blocks, and each block in
passes: step all rows, find those that begin an episode, begin it, observe all rows. Loops start at zero over slices of
the columns: with `range(lo, hi)` Numba keeps checks for negative indices, and LLVM does not vectorise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Field
from vecenv.kernel.lower.complete import writes_everything
from vecenv.kernel.lower.lower import Program

RNG_WORDS = 6
BLOCK = 1024
"""Rows that are run together: their columns fit into the nearest caches."""


def block_of(kernel: Kernel) -> int:
    """Rows of this kernel that are run together."""
    return 1 if kernel.shared else BLOCK


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
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = ()
    dimensions: int = 0
    timed: bool = False
    shared: bool = False
    sized: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of a slot with a known shape."""
        assert self.shape is not None
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def slots_of(kernel: Kernel, observation: Layout, action: Layout) -> list[Slot]:
    """All columns, in the order of the table of addresses."""

    several = bool(kernel.shared)
    """Whether the code is to serve models of several sizes."""

    def fixed(name: str, dtype: Any, shape: tuple[int, ...] = (), timed: bool = False) -> Slot:
        return Slot(name, np.dtype(dtype), shape, len(shape), timed)

    def shaped(name: str, dtype: Any, shape: tuple[int, ...], timed: bool = False, shared: bool = False) -> Slot:
        return Slot(name, np.dtype(dtype), shape, len(shape), timed, shared, sized=several and len(shape) > 0)

    def parameter(prefix: str, field: Field) -> Slot:
        shape = None if field.shape else ()
        return Slot(f"{prefix}_{field.name}", field.dtype, shape, len(field.shape), sized=shape is None)

    slots = [
        fixed("OP", np.uint8),
        fixed("SEED", np.int64),
        fixed("LAST_SEED", np.int64),
        fixed("FALLBACK", np.int64),
        fixed("RNG", np.uint64, (RNG_WORDS,)),
        fixed("ELAPSED", np.int64),
        fixed("ENDED", np.bool_),
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
    slots += [parameter("B", field) for field in kernel.params.values()]
    slots += [fixed(f"A_{k}", leaf.dtype, leaf.shape, timed=True) for k, leaf in enumerate(action.leaves)]
    for name in ("O", "F"):
        slots += [
            shaped(f"{name}_{k}", leaf.dtype, leaf.shape, timed=True) for k, leaf in enumerate(observation.leaves)
        ]
        slots += [shaped(f"{name}I_{k}", *_typed(kernel.state[k]), timed=True) for k in kernel.info]
        if "action_mask" in kernel.methods:
            slots.append(fixed(f"{name}M", np.int8, (int(action.space.n),), timed=True))  # type: ignore[attr-defined]
    slots += [shaped(f"C_{k}", leaf.dtype, leaf.shape) for k, leaf in enumerate(observation.leaves)]
    return slots


def _typed(field: Field) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return field.dtype, field.shape


def table_size(slots: list[Slot]) -> int:
    """Words of the table: address and bytes per layer of every slot, shapes that code does not know, the time limit."""
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


ORDERS = ("table", "rows", "start", "stop", "alive", "done", "steps", "check")
"""What `run` is told: addresses of the table and of a list of rows (0: a range), which of them, the ops where an
episode goes on and where it ended (0: the column of ops), how many steps, and whether to look at the actions first."""


class Driver:
    """Writes the text for one kernel."""

    def __init__(self, kernel: Kernel, program: Program, observation: Layout, action: Layout) -> None:
        self.kernel, self.program = kernel, program
        self.observation, self.action = observation, action
        self.slots = slots_of(kernel, observation, action)
        self.lines: list[str] = []

    def text(self) -> str:
        """Definitions of `block` and `run`."""
        self._head()
        self._plan()
        if "policy" in self.program.methods:
            self._policy()
        self._step()
        self._find()
        self._begin()
        self._observe_all()
        self._add(1, "return count")
        self._wrong()
        self.lines += _RUN.format(size=table_size(self.slots), block=block_of(self.kernel)).splitlines()
        return "\n".join(self.lines) + "\n"

    def _add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def _head(self) -> None:
        self._add(0, "def block(T, lo, hi, t, alive, done):")
        self._add(1, "n = hi - lo", "count = 0", f"limit = T[{table_size(self.slots) - 1}]")
        extra = 2 * len(self.slots)
        for number, slot in enumerate(self.slots):
            address = f"T[{2 * number}]" + (f" + t * T[{2 * number + 1}]" if slot.timed else "")
            if slot.sized:
                sizes = [f"T[{extra + axis}]" for axis in range(slot.dimensions)]
                extra += slot.dimensions
                row_bytes = " * ".join([*sizes, str(slot.dtype.itemsize)])
            else:
                sizes, row_bytes = list(map(str, slot.shape or ())), str(slot.row_bytes)
            shape = ", ".join(["n", *sizes])
            column = f"column_{slot.dtype.name}_{1 + slot.dimensions}"
            begin = address if slot.shared else f"{address} + lo * {row_bytes}"
            self._add(1, f"{slot.name} = {column}({begin}, ({shape},))")

    def _wrong(self) -> None:
        """Whether any action is none: out of range, or not finite."""
        self._add(0, "", "", "def wrong(T, lo, hi, t):")
        self._add(1, "n = hi - lo", "found = 0")
        for k, leaf in enumerate(self.action.leaves):
            number = next(number for number, slot in enumerate(self.slots) if slot.name == f"A_{k}")
            size = int(np.prod(leaf.shape, dtype=np.int64))
            address = f"T[{2 * number}] + t * T[{2 * number + 1}] + lo * {size * leaf.dtype.itemsize}"
            self._add(1, f"A_{k} = column_{leaf.dtype.name}_2({address}, (n, {size}))")
            if leaf.dtype.kind == "f":
                self._add(1, "for i in range(n):", f"    for j in range({size}):")
                self._add(3, f"found |= 0 if A_{k}[i, j] - A_{k}[i, j] == 0 else 1")
                continue
            low, high = (np.broadcast_to(bound, leaf.shape).ravel() for bound in leaf.bounds)
            self._add(1, "for i in range(n):")
            if len({*low.tolist()}) == len({*high.tolist()}) == 1:  # one line, however large the space
                self._add(2, f"for j in range({size}):")
                self._add(3, f"found |= 0 if {int(low[0])} <= widen__(A_{k}[i, j]) <= {int(high[0])} else 1")
                continue
            for j in range(size):
                self._add(2, f"found |= 0 if {int(low[j])} <= widen__(A_{k}[i, {j}]) <= {int(high[j])} else 1")
        self._add(1, "return found")

    def _plan(self) -> None:
        self._add(1, "if alive:")
        self._add(2, "for i in range(n):", "    OP[i] = done if ENDED[i] else alive")

    def _policy(self) -> None:
        leaves = range(len(self.observation.leaves))
        for k in leaves:
            slot = next(slot for slot in self.slots if slot.name == f"O_{k}")
            number = self.slots.index(slot)
            shape = ", ".join(["n", *map(str, slot.shape or ())])
            before = f"T[{2 * number}] + (t - 1) * T[{2 * number + 1}] + lo * {slot.row_bytes}"
            column = f"column_{slot.dtype.name}_{1 + slot.dimensions}"
            current = next(k2 for k2, other in enumerate(self.slots) if other.name == f"C_{k}")
            self._add(1, f"L_{k} = {column}(({before}) if t else T[{2 * current}] + lo * {slot.row_bytes}, ({shape},))")
        observed = [self._leaf_row("L", k, leaf.shape) for k, leaf in enumerate(self.observation.leaves)]
        writes = len(self.program.methods["policy"].node.args.args) > len(observed)
        actions = [self._leaf_row("A", k, leaf.shape) for k, leaf in enumerate(self.action.leaves)]
        self._add(1, "for i in range(n):")
        if writes:
            self._add(2, f"policy({', '.join([*observed, *actions])})")
        else:
            self._add(2, f"A_0[i] = policy({', '.join(observed)})")
        self._add(1, "if wrong(T, lo, hi, t):", "    return -1 - t")

    def _step(self) -> None:
        step = self.program.methods["step"]
        arguments = ", ".join([*self._state(step.registers), *self._actions(), "RNG[i]", *self._params()])
        new = "".join(f", n_{name}" for name in step.assigned) if step.registers else ""
        call = f"reward, terminated, truncated{new} = step({arguments})"
        self._add(1, "for i in range(n):")
        self._add(2, "op = OP[i]", "stepped = op > 1", "was = ENDED[i] | (ELAPSED[i] == 0)", "elapsed = ELAPSED[i] + 1")
        if step.registers and not step.branches:
            self._add(2, call)
            self._add(2, *(f"S_{name}[i] = n_{name} if stepped else S_{name}[i]" for name in step.assigned))
        else:
            self._add(2, "reward, terminated, truncated = 0.0, False, False", "if stepped:")
            self._add(3, call)
            if step.registers:
                self._add(3, *(f"S_{name}[i] = n_{name}" for name in step.assigned))
        self._add(
            2,
            "reward = reward if stepped else 0.0",
            "terminated = terminated & stepped",
            "truncated = (truncated | (elapsed >= limit)) & stepped",
            "ended = terminated | truncated",
            "ELAPSED[i] = elapsed if stepped else ELAPSED[i]",
            "RETURN[i] = reward + (RETURN[i] if stepped and not was else 0.0)",
            "LENGTH[i] = (1 if stepped else 0) + (LENGTH[i] if stepped and not was else 0)",
            "REWARD[i] = reward",
            "TERMINATED[i] = terminated",
            "TRUNCATED[i] = truncated",
            "ENDED[i] = ended & (op != 3)",
            "TODO[i] = (not stepped) | ((op == 3) & ended)",
            "count += 1 if ended else 0",
        )

    def _find(self) -> None:
        number = next(number for number, slot in enumerate(self.slots) if slot.name == "TODO")
        self._add(
            1,
            f"WORDS = column_uint64_1(T[{2 * number}] + lo, (n // 8,))",
            "found = 0",
            "for w in range(n // 8):",
            "    if WORDS[w] != 0:",
            "        for i in range(w * 8, w * 8 + 8):",
            "            if TODO[i]:",
            "                WHO[found] = i",
            "                found += 1",
            "for i in range(n - n % 8, n):",
            "    if TODO[i]:",
            "        WHO[found] = i",
            "        found += 1",
        )

    def _begin(self) -> None:
        self._add(1, "for k in range(found):")
        self._add(2, "i = WHO[k]", "if OP[i] == 3:")
        self._observe(3, "F")
        self._add(
            2,
            "elif SEED[i] >= 0:",
            "    seed_stream(RNG[i], SEED[i])",
            "    LAST_SEED[i] = SEED[i]",
            "    SEED[i] = -1",
            "if RNG[i, 3] == 0:",
            "    seed_stream(RNG[i], FALLBACK[i])",
            "if OVERRIDE[i] == 1:",
            "    OVERRIDE[i] = 2",
            "elif OVERRIDE[i] == 2:",
            "    OVERRIDE[i] = 0",
        )
        for name, field in self.kernel.params.items():
            if field.shape:
                self._add(3, f"for j in range(P_{name}[i].size):", f"    P_{name}[i].flat[j] = B_{name}[i].flat[j]")
            else:
                self._add(3, f"P_{name}[i] = B_{name}[i]")
        self._call_method(2, "reset", "RNG[i]")
        self._add(2, "ELAPSED[i] = 0")

    def _observe_all(self) -> None:
        self._add(1, "for i in range(n):")
        self._observe(2, "O")
        self._add(1, "for i in range(n):", "    FINISHED[i] = True")

    def _observe(self, depth: int, into: str) -> None:
        leaves = self.observation.leaves
        zeroed = not writes_everything(self.kernel.methods["observe"], [leaf.shape for leaf in leaves])
        for k, leaf in enumerate(leaves):
            if zeroed:
                self._add(depth, f"{into}_{k}[i] = 0" if not leaf.shape else f"{into}_{k}[i][...] = 0")
        rows = [self._leaf_row(into, k, leaf.shape) for k, leaf in enumerate(leaves)]
        self._call_method(depth, "observe", ", ".join(rows))
        for name in self.kernel.info:
            if self.kernel.state[name].shape:
                self._add(depth, f"assign__({into}I_{name}[i], S_{name}[i])")
            else:
                self._add(depth, f"{into}I_{name}[i] = S_{name}[i]")
        if "action_mask" in self.program.methods:
            self._add(depth, f"{into}M[i][...] = 0")
            self._call_method(depth, "action_mask", f"{into}M[i]")

    def _call_method(self, depth: int, name: str, argument: str) -> None:
        method = self.program.methods[name]
        call = f"{name}({', '.join([*self._state(method.registers), argument, *self._params()])})"
        if not method.registers or not method.assigned:
            self._add(depth, call)
            return
        self._add(depth, f"{''.join(f'n_{field}, ' for field in method.assigned)}= {call}")
        self._add(depth, *(f"S_{field}[i] = n_{field}" for field in method.assigned))

    def _state(self, registers: bool) -> list[str]:
        """Arguments for the fields: arrays as rows, numbers as values or, for those who write in place, as slices."""

        def argument(field: Field) -> str:
            if field.shape:
                return f"S_{field.name}[i]"
            return f"widen__(S_{field.name}[i])" if registers else f"S_{field.name}[i:i + 1]"

        return [argument(field) for field in self.kernel.state.values()]

    def _params(self) -> list[str]:
        return [
            f"P_{field.name}[i]" if field.shape else f"widen__(P_{field.name}[i])"
            for field in self.kernel.params.values()
        ]

    def _actions(self) -> list[str]:
        return [f"A_{k}[i]" if leaf.shape else f"widen__(A_{k}[i])" for k, leaf in enumerate(self.action.leaves)]

    def _leaf_row(self, column: str, number: int, shape: tuple[int, ...]) -> str:
        return f"{column}_{number}[i]" if shape else f"{column}_{number}[i:i + 1]"


_RUN = """

def run(orders):
    ORDERS = column_int64_1(orders, (8,))
    T = column_int64_1(ORDERS[0], ({size},))
    rows = ORDERS[1]
    start = ORDERS[2]
    stop = ORDERS[3]
    alive = ORDERS[4]
    done = ORDERS[5]
    steps = ORDERS[6]
    count = 0
    if rows:
        R = column_int64_1(rows, (stop,))
        for k in range(start, stop):
            for t in range(steps):
                count += block(T, R[k], R[k] + 1, t, alive, done)
        return count
    if ORDERS[7] and wrong(T, start, stop, 0):
        return -1
    for lo in range(start, stop, {block}):
        hi = min(lo + {block}, stop)
        for t in range(steps):
            ended = block(T, lo, hi, t, alive, done)
            if ended < 0:
                return ended
            count += ended
    return count
"""
