"""The program of one kernel as C++: what one thread does to its rows.

`lower/transition.py` says what an op does to a row, and its statements are translated here. Numbers of the state are
loaded when a row begins and stored when it ends, so that they are registers meanwhile; arrays stay in the columns. The
functions of the kernel get the `Row`, whatever part of it they use.

A MuJoCo task has the physics of all rows between the parts of a step, so `PhasedRowProgram` writes several launches of
it. Nothing here knows whose memory the columns are: those of the simulation are columns like any other.
"""

from __future__ import annotations

import ast
import functools
import weakref
from collections.abc import Sequence

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel.cpp.functions import Functions
from vecenv.kernel.cpp.values import NUMBERS, literal, strides_of
from vecenv.kernel.lower import transition
from vecenv.kernel.lower.columns import POLICY, slots_of, table_size
from vecenv.kernel.lower.complete import writes_everything
from vecenv.kernel.lower.program import Program
from vecenv.kernel.lower.types import Array

NOTES = ("ended", "wrong_row", "poll", "wrong_step", "stopped_row", "over_row", "diverged_row")
"""Words of 64 bits that all threads write to: episodes that ended; the first row with an action that is not in its
space (NO_ROW: none) and the step of that; what loops on the CPU ask whether to stop (`host.INTERRUPTS`);
the first row whose loop was stopped; the first row that was to be stepped although its episode is over; the first row
whose simulation has diverged."""
NO_ROW = 2**62
_RUN = """
const i64 first = start + thread * chunk, last = first + chunk < stop ? first + chunk : stop;
for (i64 t = 0; t < steps; ++t) {
  const K::Columns c = K::load((const i64*)table, t, action);
  for (i64 k = first; k < last; ++k) {
    if (k + 1 < last) K::fetch(c, rows ? ((const i64*)rows)[k + 1] : k + 1);
    K::row(c, rows ? ((const i64*)rows)[k] : k, t, alive, over, check, (i64*)notes);
  }
}
"""
_LINE, _PICTURE = 64, 2048
"""Bytes of a line of the cache; and of an observation that is long enough for the processor to fetch it in time."""
_LOCALS = {
    **dict.fromkeys(("op", "elapsed", "count"), "i64"),
    **dict.fromkeys(("stepped", "was", "terminated", "truncated", "ended", "stays"), "bool"),
    "reward": "real",
}
"""Variables of the transition and their types."""


def no_notes(poll: int) -> tuple[int, ...]:
    """What notes are before anything was noted."""
    return tuple({"ended": 0, "poll": poll}.get(name, NO_ROW) for name in NOTES)


def refused(program: Program) -> KernelError | None:
    """Why a program has no C++; None if it has."""
    if program.kernel.shared:
        return KernelError("a task has C++ around the simulation of a device alone; pass device=", program.kernel.name)
    if program.checked:
        return KernelError("C++ code has no checks; leave check= out, or use engine='compiled'", program.kernel.name)
    try:
        row_program(program)
    except KernelError as error:
        return error
    return None


def row_program(program: Program) -> RowProgram:
    """The C++ of a program, which is written once. Raises KernelError for what has none."""
    if program not in _written:
        kind = PhasedRowProgram if "control" in program.methods else RowProgram
        _written[program] = kind(program)
    return _written[program]


_written: weakref.WeakKeyDictionary[Program, RowProgram] = weakref.WeakKeyDictionary()


class RowProgram:
    """The C++ of a program.

    Attributes:
        slots: the columns that it works on, in the order of the table of addresses.
        text: structs, functions, and a struct K with `load` and `row`.
        run: what a thread does with it.
    """

    run = _RUN

    def __init__(self, program: Program) -> None:
        self.kernel, self._shapes, self._method_of = program.kernel, program.shapes, program.methods
        self.observation, self.action = program.layouts["obs"], program.layouts["action"]
        policy = program.methods.get("policy")
        draws = policy is not None and "rng" in policy.roles.values()
        self.slots = slots_of(self.kernel, self.observation, self.action, draws)
        self._slots = {slot.name: slot for slot in self.slots}
        self.functions = Functions(program)
        self._methods = {name: self.functions.method(name) for name in program.methods}
        self._lines: list[str] = []
        self.text = self._text()
        del self.functions  # it holds the program, and this is kept as long as the program is

    def _text(self) -> str:
        row = self._row_struct()
        functions = [text for _, text in self.functions.tables.values()] + self.functions.texts
        columns, transition_ = self._columns_struct(), self._transition()
        program = "\n".join(["struct K {", *functions, columns, *self._fetch(), *transition_, "};"])
        return "\n".join([self.functions.structs.text(), row, program])

    # --- memory ------------------------------------------------------------------------------------------------------

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of one row of a column."""
        slot = self._slots[name]
        return slot.shape if slot.shape is not None else tuple(self._shapes[name[2:]])

    def _size(self, name: str) -> int:
        return int(np.prod(self._shape(name), dtype=np.int64))

    @property
    def _row_columns(self) -> list[str]:
        """The columns that functions may use, as members of a Row: leaves of observations under the name O."""
        kinds = [f"S_{name}" for name in self.kernel.state] + [f"P_{name}" for name in self.kernel.params]
        kinds += [f"A_{leaf}" for leaf in range(len(self.action.leaves))]
        return kinds + [f"O_{leaf}" for leaf in range(len(self.observation.leaves))]

    def _is_number(self, name: str) -> bool:
        """Whether a column is a number of a Row; a number of an observation is an array of one element."""
        return not self._shape(name) and not name.startswith("O_")

    def _row_struct(self) -> str:
        lines = ["struct Row {", "  u64* rng; i64* notes; i64 index; i64 turns; bool stopped; signed char* M_mask;"]
        for name in self._row_columns:
            element = NUMBERS[self._slots[name].dtype.name]
            lines.append(f"  {element}{' ' if self._is_number(name) else '* M_'}{name};")
            if not self._is_number(name) or name.startswith("A_"):
                lines.append(self._accessor(name, self._slots[name].dtype.name, self._shape(name) or (1,)))
        if "action_mask" in self._method_of:
            lines.append(self._accessor("mask", "int8", self._shape("OM")))
        lines += [_IS_STOPPED, "};"]
        return "\n".join(lines)

    def _accessor(self, name: str, dtype: str, shape: Sequence[int]) -> str:
        kind = self.functions.structs.name(Array(dtype, tuple(shape)))
        memory = f"&{name}" if name.startswith("A_") and self._is_number(name) else f"M_{name}"
        sizes = ", ".join(map(str, [*shape, *strides_of(shape)]))
        return f"  CUDA_CALLABLE {kind} {name}_() {{ return {kind}{{{memory}, {sizes}}}; }}"

    def _columns_struct(self) -> str:
        """Addresses of all columns at one step of a rollout."""
        lines = ["  struct Columns {"]
        lines += [f"    {NUMBERS[slot.dtype.name]}* {slot.name};" for slot in self.slots]
        lines += [f"    {NUMBERS[leaf.dtype.name]}* L_{number};" for number, leaf in enumerate(self.observation.leaves)]
        lines += [
            "    i64 limit;",
            "  };",
            "  static CUDA_CALLABLE Columns load(const i64* T, i64 t, u64 action) {",
            "    Columns c;",
        ]
        numbers = {slot.name: number for number, slot in enumerate(self.slots)}
        for number, slot in enumerate(self.slots):
            layer = f" + t * T[{2 * number + 1}]" if slot.timed else ""
            lines.append(f"    c.{slot.name} = ({NUMBERS[slot.dtype.name]}*)(T[{2 * number}]{layer});")
        for leaf in range(len(self.observation.leaves)):
            one, now = numbers[f"O_{leaf}"], numbers[f"C_{leaf}"]
            before = f"t ? T[{2 * one}] + (t - 1) * T[{2 * one + 1}] : T[{2 * now}]"
            lines.append(f"    c.L_{leaf} = ({NUMBERS[self._slots[f'O_{leaf}'].dtype.name]}*)({before});")
        lines.append(f"    if (action) c.A_0 = ({NUMBERS[self._slots['A_0'].dtype.name]}*)action;")
        return "\n".join([*lines, f"    c.limit = T[{table_size(self.slots) - 1}];", "    return c;", "  }"])

    def _fetch(self) -> list[str]:
        """`fetch` asks for the memory of a row while the row before it runs: a line of each array, and observations.

        With thousands of rows they are not in the cache, and the processor's own guesses come late: rows are short, and
        lie in many columns. A GPU has other threads to run meanwhile.
        """
        lines = ["  static CUDA_CALLABLE void fetch(const Columns& c, i64 i) {"]
        for name in self._row_columns:
            size = self._size(name)
            if name.startswith("O_") and not self._is_picture(int(name[2:])):
                lines.append(f"    U::fetch(c.{name} + i * {size}, {size} * sizeof(*c.{name}));")
            elif name.startswith("S_") and not self._is_number(name):
                lines.append(f"    U::fetch(c.{name} + i * {size}, {_LINE});")
        return [*lines, "  }"]

    # --- the transition ----------------------------------------------------------------------------------------------

    def _add(self, depth: int, *lines: str) -> None:
        self._lines += ["  " * depth + line for line in lines]

    def _transition(self) -> list[str]:
        self._begin("i64 t, i64 alive, i64 over, i64 check, i64* notes")
        self._add(2, "bool TODO = false;")
        self._write(2, transition.PLAN.statements)
        self._add(2, *_UNPLANNED)
        self._load()
        if "policy" in self._methods:
            self._policy()
        self._check_actions()
        for leaf in range(len(self.observation.leaves)):
            if self._is_cleared_early(leaf):
                self._clear(2, f"(c.O_{leaf} + i * {self._size(f'O_{leaf}')})", leaf)
        self._add(2, "if (stays) {", f"  {_STAYS}", "} else {")
        self._write(3, transition.STEP.statements)
        self._add(3, "if (TODO) {")
        self._write(4, transition.BEGIN.statements)
        self._add(3, "}")
        self._write(3, transition.FINISH.statements)
        self._add(2, "}")
        self._write(2, transition.OBSERVE.statements)
        self._end()
        return [*self._lines, "  }"]

    def _begin(self, given: str) -> None:
        """The head of `row`: the columns of the row that the transition names, and its variables."""
        self._add(0, f"  static CUDA_CALLABLE void row(const Columns& c, i64 i, {given}) {{", "    EXACT")
        for name in ("OP", "SEED", "LAST_SEED", "FALLBACK", "ELAPSED", "DONE", "FINISHED", "OVERRIDE", "REWARD"):
            self._reference(name)
        for name in ("TERMINATED", "TRUNCATED", "RETURN", "LENGTH"):
            self._reference(name)
        for name, kind in _LOCALS.items():
            self._add(2, f"{kind} {name}{{}};")
        self._add(2, "const i64 limit = c.limit;")

    def _end(self) -> None:
        """Store what functions have assigned, and note what the caller is to know."""
        self._store()
        self._add(2, "if (count) VECENV_ADD(notes, count);", "if (r.stopped) VECENV_LEAST(notes + 4, i);")

    def _reference(self, name: str) -> None:
        self._add(2, f"{NUMBERS[self._slots[name].dtype.name]}& {name} = c.{name}[i];")

    def _load(self) -> None:
        self._add(2, "Row r; r.notes = notes; r.index = i; r.turns = 0; r.stopped = false; r.rng = c.RNG + i * 6;")
        for name in self._row_columns:
            if name.startswith(("A_", "O_")):
                continue
            self._add(2, self._loaded(name, name))
        for leaf in range(len(self.action.leaves)):
            self._add(2, self._loaded(f"A_{leaf}", f"A_{leaf}"))

    def _loaded(self, member: str, column: str) -> str:
        place = "0" if self._slots.get(column, self._slots[member]).single else "i"
        if self._is_number(member):
            return f"r.{member} = c.{column}[{place}];"
        return f"r.M_{member} = c.{column} + {place} * {self._size(member)};"

    def _store(self) -> None:
        """Numbers of the state that any function assigns."""
        for name, field in self.kernel.state.items():
            if not field.shape and name in self.functions.assigned:
                self._add(2, f"c.S_{name}[i] = r.S_{name};")

    def _check_actions(self) -> None:
        """A row whose action is not in its space stays as it is, and its number is noted.

        What a policy chose is always checked; other actions if the launch says so.
        """
        asked = "" if "policy" in self._methods else "check && "
        self._add(2, f"if ({asked}OP > 1) {{", "  bool wrong = false;")
        for number, leaf in enumerate(self.action.leaves):
            name, size = f"A_{number}", self._size(f"A_{number}")
            read = f"c.{name}[i * {size} + j]"
            if leaf.dtype.kind == "f":
                self._add(3, f"for (i64 j = 0; j < {size}; ++j) wrong |= !({read} - {read} == 0);")
                continue
            low, high = (np.broadcast_to(bound, leaf.shape).ravel().tolist() for bound in leaf.bounds)
            if len({*low}) == len({*high}) == 1:
                test = f"(i64){read} < {literal(int(low[0])).text} || (i64){read} > {literal(int(high[0])).text}"
                self._add(3, f"for (i64 j = 0; j < {size}; ++j) wrong |= {test};")
                continue
            for place in range(size):
                read = f"(i64)c.{name}[i * {size} + {place}]"
                test = f"{read} < {literal(int(low[place])).text} || {read} > {literal(int(high[place])).text}"
                self._add(3, f"wrong |= {test};")
        self._add(3, "if (wrong) { VECENV_LEAST(notes + 1, i); VECENV_LEAST(notes + 3, t); stays = true; }")
        self._add(2, "}")

    def _policy(self) -> None:
        policy = self._method_of["policy"]
        for leaf in range(len(self.observation.leaves)):
            self._add(2, f"r.M_O_{leaf} = c.L_{leaf} + i * {max(self._size(f'O_{leaf}'), 1)};")
        if POLICY in self._slots:
            self._add(2, f"r.rng = c.{POLICY} + i * 6;")
        call = f"{self._methods['policy']}(r)"
        if "action" in policy.roles.values():
            self._add(2, f"{call};")
            numbers = [f"A_{leaf}" for leaf in range(len(self.action.leaves)) if self._is_number(f"A_{leaf}")]
            self._add(2, *(f"c.{name}[i] = r.{name};" for name in numbers))
        else:
            self._add(2, f"c.A_0[i] = ({NUMBERS[self._slots['A_0'].dtype.name]})({call});")
            self._add(2, self._loaded("A_0", "A_0"))
        self._add(2, "r.rng = c.RNG + i * 6;")

    # --- statements of the specification -----------------------------------------------------------------------------

    def _write(self, depth: int, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            call = transition.called(statement)
            if call is not None:
                assert isinstance(call.func, ast.Name)
                getattr(self, f"_call_{call.func.id}")(depth, *map(self._expression, call.args))
            elif isinstance(statement, ast.If):
                self._add(depth, f"if ({self._expression(statement.test)}) {{")
                self._write(depth + 1, statement.body)
                if statement.orelse:
                    self._add(depth, "} else {")
                    self._write(depth + 1, statement.orelse)
                self._add(depth, "}")
            elif isinstance(statement, ast.AugAssign):
                assert isinstance(statement.op, ast.Add)
                self._add(depth, f"{self._expression(statement.target)} += {self._expression(statement.value)};")
            else:
                assert isinstance(statement, ast.Assign)
                self._add(depth, f"{self._expression(statement.targets[0])} = {self._expression(statement.value)};")

    def _expression(self, node: ast.AST) -> str:
        """The C++ of an expression of the specification, which is small."""
        if isinstance(node, ast.Name):
            return str(transition.CONSTANTS.get(node.id, node.id))
        if isinstance(node, ast.Constant):
            return literal(node.value).text
        if isinstance(node, ast.Subscript):
            return f"r.rng[{self._expression(node.slice)}]"
        if isinstance(node, ast.UnaryOp):
            assert isinstance(node.op, ast.Not)
            return f"(!{self._expression(node.operand)})"
        if isinstance(node, ast.IfExp):
            test, body, orelse = map(self._expression, (node.test, node.body, node.orelse))
            return f"({test} ? {body} : {orelse})"
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return f"({sign.join(map(self._expression, node.values))})"
        if isinstance(node, ast.BinOp):
            return f"({self._expression(node.left)} {_OPERATORS[type(node.op)]} {self._expression(node.right)})"
        assert isinstance(node, ast.Compare)
        return (
            f"({self._expression(node.left)} {_OPERATORS[type(node.ops[0])]} {self._expression(node.comparators[0])})"
        )

    def _call_step(self, depth: int) -> None:
        kind = self.functions.structs.name(self.functions.methods["step"].result)  # type: ignore[arg-type]  # typed
        self._add(depth, f"if (stepped) {{ const {kind} x = {self._methods['step']}(r);")
        self._add(depth, "  reward = x.a0; terminated = x.a1; truncated = x.a2; }")

    def _call_reset(self, depth: int) -> None:
        self._add(depth, f"{self._methods['reset']}(r);")

    def _call_seed_stream(self, depth: int, seed: str) -> None:
        self._add(depth, f"R::seed(r.rng, {seed});")

    def _call_restore_parameters(self, depth: int) -> None:
        for name, field in self.kernel.params.items():
            if field.shared:
                continue
            size = max(self._size(f"P_{name}"), 1)
            copied = f"c.P_{name}[i * {size} + j] = c.B_{name}[i * {size} + j];"
            self._add(depth, f"for (i64 j = 0; j < {size}; ++j) {copied}")
            if not field.shape:
                self._add(depth, f"r.P_{name} = c.P_{name}[i];")

    @functools.cached_property
    def _clears(self) -> bool:
        """Whether observations are zeros before `observe` writes to them."""
        return not writes_everything(self.kernel.methods["observe"], [leaf.shape for leaf in self.observation.leaves])

    def _is_picture(self, leaf: int) -> bool:
        return self._size(f"O_{leaf}") * self._slots[f"O_{leaf}"].dtype.itemsize > _PICTURE

    def _is_cleared_early(self, leaf: int) -> bool:
        """Whether a part of the observation is cleared before the step, which runs while memory is still written to."""
        return self._clears and self._is_picture(leaf)

    def _clear(self, depth: int, memory: str, leaf: int) -> None:
        self._add(depth, f"for (i64 j = 0; j < {max(self._size(f'O_{leaf}'), 1)}; ++j) {memory}[j] = 0;")

    def _call_observe(self, depth: int, into: str) -> None:
        for leaf in range(len(self.observation.leaves)):
            self._add(depth, f"r.M_O_{leaf} = c.{into}_{leaf} + i * {max(self._size(f'O_{leaf}'), 1)};")
            if self._clears and not (into == "O" and self._is_cleared_early(leaf)):
                self._clear(depth, f"r.M_O_{leaf}", leaf)
        self._add(depth, f"{self._methods['observe']}(r);")
        for name in self.kernel.info:
            self._copy_info(depth, into, name)
        if "action_mask" in self._methods:
            size = self._size("OM")
            self._add(depth, f"r.M_mask = c.{into}M + i * {size};")
            self._add(depth, f"for (i64 j = 0; j < {size}; ++j) r.M_mask[j] = 0;")
            self._add(depth, f"{self._methods['action_mask']}(r);")

    def _copy_info(self, depth: int, into: str, name: str) -> None:
        if not self.kernel.state[name].shape:
            self._add(depth, f"c.{into}I_{name}[i] = r.S_{name};")
            return
        size = self._size(f"S_{name}")
        self._add(depth, f"for (i64 j = 0; j < {size}; ++j) c.{into}I_{name}[i * {size} + j] = r.M_S_{name}[j];")


class PhasedRowProgram(RowProgram):
    """The C++ of a kernel with a simulation between its parts, which the host runs between launches.

    A step has PHASES launches. PLAN, and `control` for rows that are stepped; then the simulation advances, and `step`
    looks at what became of it; rows whose episode ended, or that are reset, begin anew, and the simulation computes
    what depends on their state; `begin` and the observation of those rows come last. Column WHO says which rows run in
    this exchange, TODO which of them begin an episode.
    """

    PHASES = 3
    run = """
const i64 first = start + thread * chunk, last = first + chunk < stop ? first + chunk : stop;
const i64 t = steps / 3, phase = steps % 3;
const K::Columns c = K::load((const i64*)table, t, action);
for (i64 k = first; k < last; ++k)
  K::row(c, rows ? ((const i64*)rows)[k] : k, t, phase, alive, over, check, (i64*)notes);
"""
    """The word `steps` is the number of the launch: step * PHASES + phase."""

    def _transition(self) -> list[str]:
        self._begin("i64 t, i64 phase, i64 alive, i64 over, i64 check, i64* notes")
        self._reference("TODO")
        self._reference("WHO")
        self._add(2, "if (phase == 0) {", "  WHO = 0; TODO = false;")
        self._write(3, transition.PLAN.statements)
        self._add(3, *_UNPLANNED, "if (t == 0) c.S_diverged[i] = 0;")
        self._add(2, "} else if (!WHO) return;")
        self._load()
        self._add(2, "if (phase == 0) {")
        if "policy" in self._methods:
            self._policy()
        self._check_actions()
        self._add(3, "if (stays) {", f"  {_STAYS}")
        self._keep_observation(4)
        self._add(3, "  return;", "}")
        self._add(3, "WHO = 1;", f"if (OP > 1) {self._methods['control']}(r);")
        self._add(2, "} else if (phase == 1) {")
        self._write(3, transition.STEP.statements)
        self._add(3, "if (r.S_diverged) VECENV_LEAST(notes + 6, i);", "if (TODO) {")
        self._write(4, transition.BEGIN.statements)
        self._add(3, "} else {")
        self._write(4, transition.OBSERVE.statements)
        self._add(3, "}")
        self._add(2, "} else {")
        self._add(3, "if (TODO) {", f"  {self._methods['begin']}(r);")
        self._write(4, transition.OBSERVE.statements)
        self._add(3, "}")
        self._write(3, transition.FINISH.statements)
        self._add(2, "}")
        self._end()
        return [*self._lines, "  }"]

    def _is_cleared_early(self, leaf: int) -> bool:
        return False  # steps and observations are parts of different launches

    def _keep_observation(self, depth: int) -> None:
        """Copy the latest observation. The simulation may have moved the row meanwhile, so it cannot be observed."""
        for leaf in range(len(self.observation.leaves)):
            size = max(self._size(f"O_{leaf}"), 1)
            copied = f"c.O_{leaf}[i * {size} + j] = c.L_{leaf}[i * {size} + j];"
            self._add(depth, f"for (i64 j = 0; j < {size}; ++j) {copied}")
        for name in self.kernel.info:
            self._copy_info(depth, "O", name)


_UNPLANNED = ("stays = OP == 0;", "if (stays) { if (!alive) return; VECENV_LEAST(notes + 5, i); }")
"""A row that is not run is left alone, unless it was to be stepped: then it stays as it is, which is noted."""
_STAYS = "REWARD = 0; TERMINATED = false; TRUNCATED = false;"
"""Results of a row that stays as it is. Its observation is written too: what is there is of an earlier step."""
_OPERATORS: dict[type, str] = {
    ast.BitAnd: "&", ast.BitOr: "|", ast.Add: "+", ast.Sub: "-",
    ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_IS_STOPPED = """  // Loops that may not end ask every million turns: on the CPU the host, on a GPU a limit says no.
  CUDA_CALLABLE bool is_stopped() {
    turns += 1;
    if ((turns & 0xFFFFF) || stopped) return stopped;
#ifdef VECENV_GPU
    stopped = turns >= (1LL << 31);
#else
    if (!notes[2]) return false;
    const i64* python = (const i64*)notes[2];
    const i64 held = ((i64 (*)())python[0])();
    stopped = (((i64 (*)())python[2])() & 0xFFFFFFFF) != 0;
    if (stopped) ((void (*)())python[3])();
    ((void (*)(i64))python[1])(held);
#endif
    return stopped;
  }"""
