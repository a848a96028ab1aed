"""The compiled row loop: text of the native function that runs ops on rows, written for one kernel.

What an op does is specified in `lower/transition.py`. Rows are taken in blocks, and each block in passes: step all
rows, find those that begin an episode, begin it, observe all rows. Loops start at zero over slices of the columns:
with `range(lo, hi)` Numba keeps checks for negative indices, and LLVM does not vectorise.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vecenv.kernel.language.fields import Field
from vecenv.kernel.lower import transition
from vecenv.kernel.lower.checks import FAULT_WORDS
from vecenv.kernel.lower.columns import POLICY, Slot, slots_of, table_size
from vecenv.kernel.lower.complete import writes_everything
from vecenv.kernel.numba.emit import EmittedProgram

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel

BLOCK = 1024
"""Threads take multiples of as many rows, and no more are run together."""
_NEAREST_CACHE = 2**15
"""Bytes. What a step has written is there when the same rows are observed."""
_FEWEST = 16
"""Rows that are run together however large they are; TODO is read eight at a time."""
_AHEAD, _FETCHED = 2, range(64, 1025)
"""How many rows ahead of a step the arrays of a state are fetched; and bytes of those that are. Rows of shorter arrays
lie near each other, and longer rows are streams: there the processor guesses well by itself."""


def block_of(kernel: Kernel) -> int:
    """Multiples of as many rows are run by one thread."""
    return 1 if kernel.shared else BLOCK


def rows_together(kernel: Kernel, slots: Sequence[Slot]) -> int:
    """Rows that go through a pass before the next pass: few enough for the nearest cache where rows hold arrays.

    Rows of numbers alone are stepped and observed several at a time, and are read in their order: for them it is BLOCK.
    """
    if kernel.shared:
        return 1
    arrays = [slot.row_bytes for slot in slots if slot.shape and slot.name[0] in "SO"]
    if sum(arrays) * BLOCK <= 8 * _NEAREST_CACHE:
        return BLOCK
    rows = BLOCK
    while rows > _FEWEST and rows * sum(arrays) > _NEAREST_CACHE:
        rows //= 2
    return rows


class Driver:
    """Writes the text for one kernel, whose `emitted` functions the row loop calls."""

    def __init__(self, emitted: EmittedProgram) -> None:
        self.kernel, self.functions = emitted.program.kernel, emitted.functions
        self.observation, self.action = emitted.program.layouts["obs"], emitted.program.layouts["action"]
        policy = emitted.program.methods.get("policy")
        draws = policy is not None and "rng" in policy.roles.values()
        self.slots = slots_of(self.kernel, self.observation, self.action, draws)
        self.is_checked = bool(emitted.program.sites)
        if self.is_checked:
            self.slots.append(Slot("FAULT", np.dtype(np.int64), (len(FAULT_WORDS),), 1))
        self._numbers = {slot.name: number for number, slot in enumerate(self.slots)}
        shapes = [leaf.shape for leaf in self.observation.leaves]
        self._writes_everything = writes_everything(self.kernel.methods["observe"], shapes)
        self.lines: list[str] = []

    def text(self) -> str:
        """Definitions of `block`, `wrong` and `run`."""
        self._head()
        self._plan()
        if self.is_checked:
            self._begin_checks()
        if "policy" in self.functions:
            self._policy()
        self._clear()
        self._early()
        self._add(1, "for i in range(n):")
        self._fetch_ahead()
        self._write(2, transition.STEP.statements)
        self._find("prefetch__(RNG[i], 0)")  # random streams are seldom used, so they are rarely in a cache
        self._add(1, "for k in range(found):", "    i = WHO[k]")
        self._write(2, transition.BEGIN.statements)
        self._all_rows(transition.OBSERVE)
        self._all_rows(transition.FINISH)
        self._add(1, "return count")
        self._wrong()
        self.lines += _RUN.format(
            size=table_size(self.slots), block=rows_together(self.kernel, self.slots)
        ).splitlines()
        return "\n".join(self.lines) + "\n"

    def _add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def _head(self) -> None:
        self._add(0, "def block(T, lo, hi, t, alive, over):")
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
            shape = ", ".join(["1" if slot.single else "n", *sizes])
            column = f"column_{slot.dtype.name}_{1 + slot.dimensions}"
            begin = address if slot.shared or slot.single else f"{address} + lo * {row_bytes}"
            self._add(1, f"{slot.name} = {column}({begin}, ({shape},))")

    def _wrong(self) -> None:
        """Whether any action is not in its space: out of range, or not finite."""
        self._add(0, "", "", "def wrong(T, lo, hi, t):")
        self._add(1, "n = hi - lo", "found = 0")
        for k, leaf in enumerate(self.action.leaves):
            number = self._numbers[f"A_{k}"]
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

    # --- the transition ----------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        (statement,) = transition.PLAN.statements
        assert isinstance(statement, ast.If)  # the same for all rows: the loop is inside
        self._add(1, f"if {ast.unparse(statement.test)}:", "    for i in range(n):")
        self._write(3, statement.body)

    def _all_rows(self, phase: transition.Phase) -> None:
        self._add(1, "for i in range(n):")
        self._write(2, phase.statements)

    def _write(self, depth: int, statements: list[ast.stmt], keyword: str = "if") -> None:
        """Write statements over row `i`."""
        for statement in statements:
            call = transition.called(statement)
            if call is not None:
                assert isinstance(call.func, ast.Name)
                getattr(self, f"_call_{call.func.id}")(depth, *map(self._of_row, call.args))
            elif isinstance(statement, ast.If):
                self._add(depth, f"{keyword} {self._of_row(statement.test)}:")
                self._write(depth + 1, statement.body)
                self._write(depth, statement.orelse, "elif")  # the specification has no plain else
            else:
                self._add(depth, self._of_row(statement))

    def _of_row(self, node: ast.AST) -> str:
        """The text of a node in which a column stands for its value of row `i`."""
        return ast.unparse(_RowOfColumns(self._numbers).visit(node))

    def _begin_checks(self) -> None:
        """Rows without a fault have all turns of loops before them."""
        number, row_bytes = self._numbers["FAULT"], 8 * len(FAULT_WORDS)
        turns, step = FAULT_WORDS.index("turns"), FAULT_WORDS.index("step")
        self._add(1, f"faults = T[{2 * number}] + lo * {row_bytes}", "for i in range(n):")
        self._add(2, "if FAULT[i, 0] == 0:", f"    FAULT[i, {turns}] = 0", f"    FAULT[i, {step}] = t")

    def _fault(self, name: str) -> list[str]:
        """The address of the row's fault, for functions that have checks."""
        return [f"faults + i * {8 * len(FAULT_WORDS)}"] if self.functions[name].function.faults else []

    def _policy(self) -> None:
        for k in range(len(self.observation.leaves)):
            number, current = self._numbers[f"O_{k}"], self._numbers[f"C_{k}"]
            slot = self.slots[number]
            shape = ", ".join(["n", *map(str, slot.shape or ())])
            before = f"T[{2 * number}] + (t - 1) * T[{2 * number + 1}] + lo * {slot.row_bytes}"
            column = f"column_{slot.dtype.name}_{1 + slot.dimensions}"
            self._add(1, f"L_{k} = {column}(({before}) if t else T[{2 * current}] + lo * {slot.row_bytes}, ({shape},))")
        observed = [self._leaf_row("L", k, leaf.shape) for k, leaf in enumerate(self.observation.leaves)]
        actions = [self._leaf_row("A", k, leaf.shape) for k, leaf in enumerate(self.action.leaves)]
        policy = self.functions["policy"].function
        parts = {"obs": observed, "action": actions, "rng": [f"{POLICY}[i]"]}
        given = [part for name in policy.source.parameters for part in parts[policy.roles[name]]]
        arguments = ", ".join([*self._fault("policy"), *given])
        returns = "" if "action" in policy.roles.values() else "A_0[i] = "
        self._add(1, "for i in range(n):", f"    {returns}policy({arguments})")
        self._add(1, "if wrong(T, lo, hi, t):", "    return -1 - t")

    def _early(self) -> None:
        """Calls that `early.py` took out of the step."""
        if "early" not in self.functions:
            return
        targets, rows = self._early_results(), rows_together(self.kernel, self.slots)
        call = f"{', '.join(targets)} = early({self._step_arguments()})"
        self._add(1, *(f"{target[:-3]} = rows_float64_{rows}()" for target in targets), "for i in range(n):")
        if "near" not in self.functions:
            self._add(2, call)
            return
        self._add(2, call.replace("early(", "near("))
        self._add(2, f"TODO[i] = {' | '.join(f'({target} != {target})' for target in targets)}")  # NaN: not known
        self._find()
        self._add(1, "for k in range(found):", "    i = WHO[k]", f"    {call}")

    def _early_results(self) -> list[str]:
        step, early = (len(self.functions[name].node.args.args) for name in ("step", "early"))
        return [f"E_{place}[i]" for place in range(step - early)]

    def _step_arguments(self) -> str:
        state = [*self._fault("step"), *self._state(self.functions["step"].registers)]
        return ", ".join([*state, *self._actions(), "RNG[i]", *self._params()])

    def _call_step(self, depth: int) -> None:
        step = self.functions["step"]
        results = self._early_results() if "early" in self.functions else []
        arguments = ", ".join([self._step_arguments(), *results])
        new = "".join(f", n_{name}" for name in step.assigned)
        call = f"reward, terminated, truncated{new} = step({arguments})"
        if step.registers and not step.function.guarded:  # without a branch, so that LLVM vectorises the loop
            self._add(depth, call)
            self._add(depth, *(f"S_{name}[i] = n_{name} if stepped else S_{name}[i]" for name in step.assigned))
            return
        self._add(depth, "reward, terminated, truncated = 0.0, False, False", "if stepped:")
        self._add(depth + 1, call, *(f"S_{name}[i] = n_{name}" for name in step.assigned))

    def _fetch_ahead(self) -> None:
        """Ask for the arrays of a later row, where rows are large: the processor's own guesses come late."""
        if rows_together(self.kernel, self.slots) in (1, BLOCK):
            return
        for slot in self.slots:
            if slot.name.startswith("S_") and slot.row_bytes in _FETCHED:
                self._add(2, f"prefetch__({slot.name}[i], {_AHEAD})")

    def _find(self, *prepare: str) -> None:
        """Find the rows that have something to do: write their numbers into WHO, and do this for each of them."""
        prepared = [f"        {line}" for line in prepare]
        self._add(
            1,
            f"WORDS = column_uint64_1(T[{2 * self._numbers['TODO']}] + lo, (n // 8,))",
            "found = 0",
            "for w in range(n // 8):",
            "    word = WORDS[w]",
            "    for j in range(ones__(word)):",
            "        i = w * 8 + zeros__(word) // 8",
            "        WHO[found] = i",
            *prepared,
            "        found += 1",
            "        word = word & (word - 1)",
            "for i in range(n - n % 8, n):",
            "    if TODO[i]:",
            "        WHO[found] = i",
            "        found += 1",
        )

    def _call_seed_stream(self, depth: int, seed: str) -> None:
        self._add(depth, f"seed_stream(RNG[i], {seed})")

    def _call_restore_parameters(self, depth: int) -> None:
        for name, field in self.kernel.params.items():
            if field.shared:
                continue
            if field.shape:
                self._add(depth, f"for j in range(P_{name}[i].size):")
                self._add(depth, f"    P_{name}[i].flat[j] = B_{name}[i].flat[j]")
            else:
                self._add(depth, f"P_{name}[i] = B_{name}[i]")

    def _call_reset(self, depth: int) -> None:
        self._call_method(depth, "reset", "RNG[i]")

    def _call_observe(self, depth: int, into: str) -> None:
        leaves = self.observation.leaves
        if into != "O":
            self._clear_row(depth, into)
        rows = [self._leaf_row(into, k, leaf.shape) for k, leaf in enumerate(leaves)]
        self._call_method(depth, "observe", ", ".join(rows))
        for name in self.kernel.info:
            if self.kernel.state[name].shape:
                self._add(depth, f"assign__({into}I_{name}[i], S_{name}[i])")
            else:
                self._add(depth, f"{into}I_{name}[i] = S_{name}[i]")
        if "action_mask" in self.functions:
            self._add(depth, f"{into}M[i][...] = 0")
            self._call_method(depth, "action_mask", f"{into}M[i]")

    def _clear(self) -> None:
        """Clear the observations of all rows, before the step: what is not in the cache then comes in one stream."""
        if not self._writes_everything:
            self._add(1, "for i in range(n):")
            self._clear_row(2, "O")

    def _clear_row(self, depth: int, into: str) -> None:
        if not self._writes_everything:
            for k, leaf in enumerate(self.observation.leaves):
                self._add(depth, f"{into}_{k}[i][...] = 0" if leaf.shape else f"{into}_{k}[i] = 0")

    def _call_method(self, depth: int, name: str, argument: str) -> None:
        method = self.functions[name]
        state = [*self._fault(name), *self._state(method.registers)]
        call = f"{name}({', '.join([*state, argument, *self._params()])})"
        new = "".join(f"n_{field}, " for field in method.assigned)
        self._add(depth, f"{new}= {call}" if new else call)
        self._add(depth, *(f"S_{field}[i] = n_{field}" for field in method.assigned))

    def _state(self, registers: bool) -> list[str]:
        """Arguments for the fields: arrays as rows, numbers as values or, for those who write in place, as slices."""

        def argument(field: Field) -> str:
            if field.shape:
                return f"S_{field.name}[i]"
            return f"widen__(S_{field.name}[i])" if registers else f"S_{field.name}[i:i + 1]"

        return [argument(field) for field in self.kernel.state.values()]

    def _params(self) -> list[str]:
        def argument(field: Field) -> str:
            if field.shape:
                return f"P_{field.name}[{0 if field.shared else 'i'}]"
            return f"widen__(P_{field.name}[i])"

        return [argument(field) for field in self.kernel.params.values()]

    def _actions(self) -> list[str]:
        return [f"A_{k}[i]" if leaf.shape else f"widen__(A_{k}[i])" for k, leaf in enumerate(self.action.leaves)]

    def _leaf_row(self, column: str, number: int, shape: tuple[int, ...]) -> str:
        return f"{column}_{number}[i]" if shape else f"{column}_{number}[i:i + 1]"


class _RowOfColumns(ast.NodeTransformer):
    """Makes `COLUMN` of the specification `COLUMN[i]`, and names of its constants their values."""

    def __init__(self, columns: Collection[str]) -> None:
        self.columns = columns

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in transition.CONSTANTS:
            return ast.Constant(transition.CONSTANTS[node.id])
        return ast.Subscript(node, ast.Name("i"), node.ctx) if node.id in self.columns else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return ast.Subscript(node.value, ast.Tuple([ast.Name("i"), node.slice]), node.ctx)


_RUN = """

def run(orders):
    ORDERS = column_int64_1(orders, (8,))
    T = column_int64_1(ORDERS[0], ({size},))
    rows = ORDERS[1]
    start = ORDERS[2]
    stop = ORDERS[3]
    alive = ORDERS[4]
    over = ORDERS[5]
    steps = ORDERS[6]
    count = 0
    if rows:
        R = column_int64_1(rows, (stop,))
        for k in range(start, stop):
            for t in range(steps):
                count += block(T, R[k], R[k] + 1, t, alive, over)
        return count
    if ORDERS[7] and wrong(T, start, stop, 0):
        return -1
    for lo in range(start, stop, {block}):
        hi = min(lo + {block}, stop)
        for t in range(steps):
            ended = block(T, lo, hi, t, alive, over)
            if ended < 0:
                return ended
            count += ended
    return count
"""
