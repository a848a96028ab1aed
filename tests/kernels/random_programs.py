"""Programs of the kernel language, written at random from a seed: what a person might write, only odder.

A program is a function `program<seed>(s, rng, p, k)`. Texts are tried in plain NumPy while they are written, which says of
which type and shape an expression is; so most programs have a meaning. Ints stay small, divisors are not zero and indices
are in range, because native code and Python differ there by design (see docs/kernels.md).
"""

# ruff: noqa: E501
# Tables of short texts, several in a line.
from __future__ import annotations

import random
import textwrap
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.kernels.random_guards import HELPERS, NARROW, Guards

FIELDS = {
    "a": "float", "e": "np.float32", "n": "int", "h": "np.int8", "w": "np.int16", "z": "np.uint32", "t": "bool",
    "x": "(float, 4)", "y": "(float, 4)", "m": "(float, (3, 4))", "q": "(float, (4, 4))", "long": "(float, 37)",
    "f": "(np.float32, 4)", "g": "(np.float32, (3, 4))", "c": "(np.int8, 4)", "b": "(np.int8, (3, 4))",
    "j": "(np.int16, 4)", "l": "(np.int32, 4)", "i": "(int, 4)", "r": "(int, (3, 4))", "u": "(np.uint8, 4)",
    "v": "(np.uint16, 4)", "o": "(np.uint32, 4)", "d": "(bool, 4)", "dd": "(bool, (3, 4))",
}  # fmt: skip
"""Fields of the state: numbers first, one of every type and an array of every type."""
SCALARS = tuple(FIELDS)[:7]
PARAMS = {"speed": "0.75", "lives": "3", "curve": "np.array([0.5, -1.5, 2.0, 0.25])"}

LIBRARY = (
    '''
SCALE = 1.25
LIMIT = 7
TABLE = np.array([3, -1, 4, 100], np.int8)
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.int8)
CURVE = np.array([0.1, 0.2, 0.3, 0.4])
WEIGHTS = (0.5, 0.25, 0.25)
NEIGHBOURS = [(0, 1), (1, 0), (0, -1), (-1, 0)]
NAMED = {"low": -2, "high": 9}
KEYED = {0: 0.5, 1: 1.5, 2: -2.5}


def small(x):
    """A float as an int that is not large."""
    return int(min(max(x, -99.0), 99.0)) if x == x else 0


def scaled(x, by=2.0):
    return x * by


def added(x, y):
    return x + y


def row_of(table, row):
    return table[row]


def both(x, y=1):
    return y, x


def total(values):
    result = 0
    for value in values:
        result += value
    return result


def halves(x):
    return x[:2] * 2, x[2:].copy(), x.sum()


def positive(x):
    if x > 0:
        return x
    return -x


def moved(rng, x, by=1.0):
    return x + rng.uniform(-by, by)


def set_row(s, value):
    s.x[:] = value
    s.n += 1
    return s.n % 5


def add_into(out, x):
    out += x


def grown(p, x):
    return x * p.speed + p.curve[p.lives]
'''
    + HELPERS
)


class Unwritable(Exception):
    """Plain NumPy has no value for a text; another one is written."""


class Writer(Guards):
    """Writes one program; every second one has numbers of 64 bits alone."""

    arrays, scalars = tuple(FIELDS)[7:], SCALARS

    def __init__(self, seed: int, library: dict[str, Any]) -> None:
        self.random = random.Random(seed)
        self.name = f"program{seed}"
        self.is_plain = seed % 2 == 1
        self.lines: list[str] = []
        self.depth = 1
        self.counter = 0
        self.in_loop = 0
        generator = np.random.default_rng(seed)
        fields: dict[str, Any] = {}
        for name, text in FIELDS.items():
            array = np.zeros(1, eval(f"np.dtype({text})", {"np": np}))[0]
            filled(name, array := np.array(array), generator)
            fields[name] = array if array.ndim else array.item()
        params = SimpleNamespace(speed=0.75, lives=3, curve=np.array([0.5, -1.5, 2.0, 0.25]))
        self.names: dict[str, Any] = {**library, "s": SimpleNamespace(**fields), "p": params, "rng": generator, "k": 2}
        self.locals: list[str] = ["k"]

    # --- the program -------------------------------------------------------------------------------------------------

    def program(self) -> str:
        """The text of the function."""
        self.block(self.random.randint(3, 8))
        self.put("return rng.random()")
        return f"def {self.name}(s, rng, p, k):\n" + "\n".join(self.lines) + "\n"

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def block(self, count: int) -> None:
        known = list(self.locals)
        before = len(self.lines)
        for _ in range(count):
            self.statement()
        if len(self.lines) == before:
            self.put("s.n = (s.n + 1) % 50")
        self.locals = known

    def statement(self) -> None:
        kinds = [
            (8, self._variable), (6, self._scalar_field), (6, self._array_field), (4, self._element), (4, self._part),
            (3, self._mask), (3, self._in_place), (3, self._if), (3, self._for), (1, self._while), (2, self._unpack),
            (2, self._call), (1, self._leave), (2, self._again), (2, self._selection), (1, self._draw_into), (1, self._list), (1, self._queue),
            (3, self._guarded_if), (3, self._leaving_for), (3, self._searching_while), (4, self._changed), (2, self._many),
        ]  # fmt: skip
        for _ in range(8):
            write = self.random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
            lines, known, names = len(self.lines), list(self.locals), dict(self.names)
            depth, in_loop = self.depth, self.in_loop
            try:
                write()
                if self.is_plain and any(NARROW.search(line) for line in self.lines[lines:]):
                    raise Unwritable(write.__name__)
            except Unwritable:
                del self.lines[lines:]
                self.locals, self.names = known, names
                self.depth, self.in_loop = depth, in_loop
            else:
                return

    def value(self, text: str) -> Any:
        """What plain NumPy makes of a text."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return eval(text, self.names)
        except Exception as error:
            raise Unwritable(text) from error

    def array(self, depth: int = 2) -> tuple[str, np.ndarray]:
        text = self.arr(depth)
        value = self.value(text)
        if not isinstance(value, np.ndarray) or not value.ndim or value.dtype.kind not in "biuf" or not value.size:
            raise Unwritable(text)
        if value.dtype == np.uint64:
            raise Unwritable(text)
        return text, value

    def one_of(self, *options: Any) -> Any:
        return self.random.choice(options)

    def new_name(self, value: Any) -> str:
        self.counter += 1
        name = f"v{self.counter}"
        self.locals.append(name)
        self.names[name] = value.item() if isinstance(value, np.generic) else value
        return name

    # --- statements --------------------------------------------------------------------------------------------------

    def _variable(self) -> None:
        kind = self.one_of("float", "int", "bool", "array", "array")
        if kind == "array":
            text, value = self.array()
        else:
            text = self.number(kind)
            value = self.value(text)
        if isinstance(value, np.ndarray):
            self.put(f"{self.new_name(value)} = {text}")
        elif self.random.random() < 0.2:
            self.put(f"{self.new_name(value)}: {kind} = {text}")
        else:
            self.put(f"{self.new_name(value)} = {text}")

    def _again(self) -> None:
        """A variable gets another value of the same type."""
        name = self.one_of(*self.locals)
        held = self.names[name]
        if isinstance(held, np.ndarray):
            text, value = self.array()
            if (value.shape, value.dtype) != (held.shape, held.dtype):
                raise Unwritable(text)
            self.put(f"{name} = {text}")
        elif name != "k":
            text = self.number(type(held).__name__)
            self.put(f"{name} = ({text}) % 1009" if type(held) is int else f"{name} = {text}")
        else:
            raise Unwritable(name)

    def _scalar_field(self) -> None:
        name = self.one_of(*self.scalars)
        kind = {"a": "float", "e": "float", "t": "bool"}.get(name, "int")
        if kind != "bool" and self.random.random() < 0.3:
            operator = self.one_of("+", "-") if kind == "float" else "+"
            operand = self.number(kind, 1)
            if kind == "int":
                self.put(f"s.{name} = (s.{name} {operator} {operand}) % 100")
            else:
                self.put(f"s.{name} {operator}= {operand}")
            return
        text = self.number(kind)
        self.put(f"s.{name} = {text}" if kind != "int" else f"s.{name} = ({text}) % 100")

    def _array_field(self) -> None:
        text, value = self.array(3)
        name = self._field_for(value)
        self.put(f"s.{name} = {text}" if self.random.random() < 0.7 else f"s.{name}[:] = {text}")

    def _field_for(self, value: np.ndarray) -> str:
        """A field that can hold an array."""
        fits = [
            name for name in self.arrays
            if self._holds(getattr(self.names["s"], name), value)
        ]  # fmt: skip
        if not fits:
            raise Unwritable("no field")
        return self.random.choice(fits)

    def _holds(self, held: np.ndarray, value: np.ndarray) -> bool:
        if held.shape[-value.ndim :] != value.shape:
            return False
        return (
            held.dtype.kind == "f"
            or (value.dtype.kind == "b")
            or (held.dtype.kind in "iu" and value.dtype.kind in "iu")
        )

    def _element(self) -> None:
        text, held = self.place()
        kind = {"f": "float", "b": "bool"}.get(np.asarray(held).dtype.kind, "int")
        number = self.number(kind)
        self.put(f"{text} = {number}" if kind != "int" else f"{text} = ({number}) % 100")

    def place(self) -> tuple[str, Any]:
        """An element that can be written."""
        name = self.one_of(*[f"s.{name}" for name in self.arrays], *self._own_arrays())
        held = self.value(name)
        indices = [self.index(size) for size in held.shape]
        text = f"{name}[{', '.join(indices)}]" if self.random.random() < 0.8 else f"{name}[{']['.join(indices)}]"
        return text, held.flat[0]

    def _own_arrays(self) -> list[str]:
        return [name for name in self.locals if isinstance(self.names[name], np.ndarray)]

    def index(self, size: int) -> str:
        """An index that is in range."""
        options = [str(self.random.randrange(-size, size)), f"(s.n + {self.one_of('1', 'k', 's.h')}) % {size}"]
        if size == 4:
            options += ["rng.integers(4)"]
        if size >= 3:
            options += ["k"]
        if self.random.random() < 0.1:
            options = [f"({self.number('int', 1)}) % {size}"]
        return self.random.choice(options)

    def slice(self, size: int) -> str:
        options = [":", "::-1", "1:", ":-1", "::2", ":2", "1:3", ": k", "k :", "k : k + 1", "-2:"]
        return self.random.choice(options) if size >= 3 else ":"

    def _part(self) -> None:
        name = self.one_of(*[f"s.{name}" for name in self.arrays], *self._own_arrays())
        held = self.value(name)
        parts = [self.slice(size) if self.random.random() < 0.7 else self.index(size) for size in held.shape]
        target = f"{name}[{', '.join(parts)}]"
        part = np.asarray(self.value(target))
        if not part.ndim or not any(":" in one for one in parts):
            raise Unwritable(target)
        choice = self.random.random()
        if choice < 0.3:
            self.put(f"{target} = {self._number_for(held)}")
        elif choice < 0.45 and part.ndim == 1 and "k" not in target:
            values = ", ".join(self._number_for(held) for _ in range(part.size))
            self.put(f"{target} = {self.one_of('({})', '[{}]').format(values + ',' * (part.size == 1))}")
        else:
            text, value = self.array()
            if not self._holds(part, value) or value.shape != part.shape:
                raise Unwritable(text)
            self.put(f"{target} = {text}")

    def _number_for(self, held: np.ndarray) -> str:
        kind = {"f": "float", "b": "bool"}.get(held.dtype.kind, "int")
        text = self.number(kind, 1)
        return text if kind != "int" else f"({text}) % 100"

    def _mask(self) -> None:
        name = f"s.{self.one_of(*self.arrays)}"
        held = self.value(name)
        mask = self.mask_for(name, held)
        operator = "=" if held.dtype.kind == "b" else self.one_of("=", "=", "+=")
        if operator == "=" and self.random.random() < 0.2:
            self.put(f"{name}[{mask}] = {name}[{mask}]")
        else:
            self.put(f"{name}[{mask}] {operator} {self._number_for(held)}")

    def mask_for(self, name: str, held: np.ndarray) -> str:
        if held.dtype.kind == "b":
            return self.one_of(name, f"~{name}")
        compared = f"{name} {self.one_of('>', '<', '==', '!=', '>=')} {self.one_of('0', '1', '2', 's.n', 's.a')}"
        if held.dtype.kind != "f" and held.itemsize < 8 and "s." in compared.partition(" ")[2]:
            compared = f"{name} > 1"
        other = {(4,): "s.d", (3, 4): "s.dd"}.get(held.shape)
        if other is not None and self.random.random() < 0.3:
            return f"({compared}) {self.one_of('&', '|', '^')} {other}"
        return compared

    def _in_place(self) -> None:
        name = self.one_of(*[f"s.{name}" for name in self.arrays], *self._own_arrays())
        held = self.value(name)
        if held.dtype.kind == "b":
            text, value = self.array(1)
            if value.dtype.kind != "b" or held.shape[-value.ndim :] != value.shape:
                raise Unwritable(text)
            self.put(f"{name} {self.one_of('&=', '|=', '^=')} {text}")
            return
        if self.random.random() < 0.4:
            text, value = self.array(1)
            if not self._holds(held, value) or np.result_type(held, value) != held.dtype:
                raise Unwritable(text)
        else:
            text = str(self.random.randint(1, 5)) if held.dtype.kind != "f" else self.number("float", 1)
        operator = self.one_of("+=", "-=") if held.dtype.kind != "f" else self.one_of("+=", "-=", "*=")
        if held.dtype.kind != "f" and text.isdigit():
            operator = self.one_of("+=", "-=", "//=", "%=")
        self.put(f"{name} {operator} {text}")
        if held.dtype == np.int64:
            self.put(f"{name} %= 1009")

    def _if(self) -> None:
        self.put(f"if {self.number('bool')}:")
        self._nested()
        for _ in range(self.random.choice([0, 0, 1])):
            self.put(f"elif {self.number('bool')}:")
            self._nested()
        if self.random.random() < 0.5:
            self.put("else:")
            self._nested()

    def _nested(self, count: int = 2) -> None:
        if self.depth > 3:
            raise Unwritable("too deep")
        self.depth += 1
        self.block(self.random.randint(1, count))
        self.depth -= 1

    def _for(self) -> None:
        choice = self.random.randrange(8)
        known = list(self.locals)
        if choice < 3:
            size = self.random.randint(1, 4)
            text = self.one_of(f"range({size})", f"range(1, {size + 1})", f"range({size}, -1, -1)", "range(len(s.x))")
            text = self.one_of(text, f"reversed(range({size}))")
            self.put(f"for {self.new_name(1)} in {text}:")
        elif choice == 3:
            text, value = self.array(1)
            if value.ndim > 1 or len(value) < 1:
                raise Unwritable(text)
            self.put(f"for {self.new_name(value[0].item())} in {text}:")
        elif choice == 4:
            self.put(
                f"for {self.new_name(1)}, {self.new_name(0.5)} in enumerate({self.one_of('s.x', 's.f', 'CURVE')}):"
            )
        elif choice == 5:
            first, second = self.one_of("s.x", "s.m[1]"), self.one_of("s.c", "s.u", "s.i")
            self.put(f"for {self.new_name(0.5)}, {self.new_name(1)} in zip({first}, {second}):")
        elif choice == 6:
            self.put(f"for {self.new_name(0)}, {self.new_name(1)} in {self.one_of('NEIGHBOURS', 'MOVES')}:")
        else:
            name = self.one_of("s.m", "s.g", "s.b")
            self.put(f"for {self.new_name(self.value(name)[0])} in {name}:")
        self.in_loop += 1
        self._nested()
        self.in_loop -= 1
        self.locals = known

    def _while(self) -> None:
        name = self.new_name(0)
        self.locals.remove(name)  # nothing else may change it
        self.put(f"{name} = 0")
        self.put(f"while {name} < {self.random.randint(1, 4)} and {self.number('bool', 1)}:")
        self.put(f"    {name} += 1")
        self.in_loop += 1
        self._nested()
        self.in_loop -= 1

    def _leave(self) -> None:
        if self.in_loop:
            self.put(f"if {self.number('bool', 1)}:")
            self.put(f"    {self.one_of('break', 'continue')}")
        elif self.random.random() < 0.3:
            self.put(f"if {self.number('bool', 1)}:")
            self.put(f"    return {self.number('float', 1)}")
        else:
            self.put("assert s.n == s.n, f'{s.n} is odd'")

    def _unpack(self) -> None:
        choice = self.random.randrange(6)
        if choice == 0:
            first, second = self.number("float"), self.number("int")
            self.put(f"{self.new_name(0.5)}, {self.new_name(1)} = {first}, ({second}) % 100")
        elif choice == 1:
            text = self.number("float")
            self.put(f"{self.new_name(1)}, {self.new_name(0.5)} = both({text})")
        elif choice == 2:
            self.put(f"{self.new_name(1)}, {self.new_name(0)} = MOVES[{self.index(4)}]")
        elif choice == 3:
            name = self.one_of("s.x", "s.y", "CURVE", "p.curve")
            head, rest, summed = self.value(f"halves({name})")
            self.put(f"{self.new_name(head)}, {self.new_name(rest)}, {self.new_name(float(summed))} = halves({name})")
        elif choice == 4:
            self.put(f"s.a, s.e = s.e, {self.number('float', 1)}")
        else:
            text = self.number("float")
            first, second = self.new_name(0.5), self.new_name(0.5)
            self.put(f"{first} = {second} = {text}")

    def _call(self) -> None:
        choice = self.random.randrange(5)
        if choice == 0:
            self.put(f"s.n = set_row(s, {self.number('float', 1)})")
        elif choice == 1:
            target = self.one_of("s.x", "s.y", "s.m[1]", "s.m[:, 2][:3]", *self._own_arrays())
            held = self.value(target)
            text, value = self.array(1)
            if held.dtype.kind != "f" or not self._holds(held, value) or held.dtype != np.float64:
                raise Unwritable(text)
            self.put(f"add_into({target}, {text})")
        elif choice == 2:
            self.put(f"set_row(value={self.number('float', 1)}, s=s)")
        elif choice == 3:
            text = f"moved(rng, {self.number('float', 1)}, by={self.one_of('2.0', 'p.speed')})"
            self.put(f"{self.new_name(0.5)} = {text}")
        else:
            text = f"grown(p, x={self.number('float', 1)})"
            self.put(f"{self.new_name(0.5)} = {text}")

    def _selection(self) -> None:
        """A selection, and numbers of it."""
        name = self.one_of("s.x", "s.c", "s.i", "s.b", "s.m", "s.u", "s.f")
        held = self.value(name)
        mask = self.mask_for(name, held)
        choice = self.random.randrange(6)
        if choice < 2:
            one = self.new_name(None)
            self.locals.remove(one)
            self.put(f"{one} = {name}[{mask}]")
            kind = "a" if held.dtype.kind == "f" else "n"
            reduced = self.one_of(f"{one}.sum()", f"len({one})", f"{one}.max() if len({one}) > 0 else 1")
            self.put(f"s.{kind} = ({reduced}) % 100")
        elif choice == 2:
            one = self.new_name(None)
            self.locals.remove(one)
            self.put(f"{one} = np.flatnonzero({mask})")
            self.put(f"s.n = len({one}) + {one}.sum()")
            if held.ndim == 1:
                self.put(f"{name}[{one}] = {self._number_for(held)}")
        elif choice == 3 and held.ndim == 2:
            first, second = self.new_name(None), self.new_name(None)
            del self.locals[-2:]
            call = self.one_of("np.nonzero({})", "np.where({})")
            self.put(f"{first}, {second} = {call.format(mask)}")
            self.put(f"for place in range(len({first})):")
            self.put(f"    {name}[{first}[place], {second}[place]] = {self._number_for(held)}")
        elif choice == 4 and held.ndim == 2:
            first, second = self.new_name(None), self.new_name(None)
            del self.locals[-2:]
            self.put(f"for {first}, {second} in np.argwhere({mask}):")
            self.put(f"    s.n = (s.n + {first} * 4 + {second}) % 100")
        elif held.ndim == 1:
            self.put(f"{name}[:] = np.concatenate(({name}[{mask}], {name}[~({mask})]))")
        else:
            raise Unwritable(name)

    def _list(self) -> None:
        """A list that grows in a loop, and numbers of it."""
        items, held = self.new_name(None), self.one_of("s.x", "s.c", "s.i", "s.u", "CURVE")
        del self.locals[-1:]
        kind = "float" if self.value(held).dtype.kind == "f" else "int"
        item = self.one_of(f"{held}[place]", f"{held}[place] * 2", self.number(kind, 1))
        item = item if kind == "float" else f"({item}) % 100"
        self.put(f"{items} = {self.one_of('[]', '[' + self.number(kind, 0) + ']')}")
        self.put("for place in range(4):")
        if self.random.random() < 0.6:
            self.put(f"    if {self.number('bool', 1)}:")
            self.put(f"        {items}.append({item})")
        else:
            self.put(f"    {items}.append({item})")
        if self.random.random() < 0.4:
            self.put(f"if len({items}) > 1:")
            self.put(f"    {items}.pop({self.one_of('', '0')})")
        self.put(f"for item in {items}:")
        self.put("    s.a += item" if kind == "float" else "    s.n = (s.n + item) % 100")
        self.put(f"s.w = len({items})")

    def _queue(self) -> None:
        """A queue that is filled and emptied."""
        queue = self.new_name(None)
        del self.locals[-1:]
        self.put(f"{queue} = Queue({self.one_of('int', 'np.int8')}, 8)")
        self.put(f"{queue}.append(({self.number('int', 1)}) % 50)")
        self.put("for place in range(4):")
        self.put(f"    if {self.number('bool', 1)} and len({queue}) > 0:")
        self.put(f"        s.n = (s.n + {queue}.{self.one_of('popleft', 'pop')}()) % 100")
        self.put("    else:")
        self.put(f"        {queue}.append(s.c[place] % 50)")
        self.put(f"s.t = len({queue}) > 1")

    def _draw_into(self) -> None:
        self.put(
            self.one_of(
                "rng.shuffle(s.i)", "rng.shuffle(s.b)", "fill_normal(rng, s.x)", "fill_integers(rng, s.c, -5, 9)",
                "permutation(rng, s.l)", "sample(rng, 9, s.j)", "rng.random(out=s.y)", "multinomial(rng, 5, CURVE, s.i)",
                "fill_uniform(rng, s.f, -1.0, 1.0)", "fill_choice(rng, s.i, TABLE)", "shuffle(rng, s.x)",
            )
        )  # fmt: skip

    # --- numbers -----------------------------------------------------------------------------------------------------

    def number(self, kind: str, depth: int = 2) -> str:
        """An expression that is a number."""
        for _ in range(20):
            write = {"float": self._float, "int": self._int, "bool": self._bool}[kind]
            guarded = {"float": self.guarded_float, "int": self.guarded_int, "bool": self.guarded_bool}[kind]
            text = guarded() if depth > 1 and self.random.random() < 0.3 else write(depth)
            try:
                value = self.value(text)
            except Unwritable:
                continue
            if kind == "bool" and isinstance(value, (bool, np.bool_)):
                return text
            if kind == "int" and isinstance(value, (int, np.integer)) and not isinstance(value, bool):
                return text
            if kind == "float" and isinstance(value, (float, np.floating)):
                return text
        raise Unwritable(kind)

    def _locals_of(self, *types: type) -> list[str]:
        return [name for name in self.locals if type(self.names[name]) in types]

    def _float(self, depth: int) -> str:
        if depth <= 0:
            constant = self.one_of("0.5", "-1.5", "2.0", "0.1", "1e-3")
            own = [*self._locals_of(float), "s.a", "s.e", "p.speed", "SCALE"]
            return self.one_of(constant, self.random.choice(own), self.random.choice(own), self.element("f"))
        one, other = (lambda: self._float(depth - 1)), (lambda: self._float(depth - 1))
        whole = lambda: self._int(depth - 1)  # noqa: E731  # as short as the others
        choice = self.random.randrange(30)
        texts = {
            0: lambda: f"({one()} + {other()})", 1: lambda: f"({one()} - {other()})", 2: lambda: f"({one()} * {other()})",
            3: lambda: f"({one()} / (abs({other()}) + 0.5))", 4: lambda: f"({one()} * {whole()})",
            5: lambda: f"-{one()}", 6: lambda: f"abs({one()})", 7: lambda: f"min({one()}, {other()})",
            8: lambda: f"max({one()}, {other()}, 0.25)", 9: lambda: f"math.{self.one_of('sin', 'cos', 'tanh', 'atan')}({one()})",
            10: lambda: f"math.sqrt(abs({one()}))", 11: lambda: f"math.exp(min({one()}, 3.0))",
            12: lambda: f"({one()} if {self._bool(depth - 1)} else {other()})", 13: lambda: f"float({whole()})",
            14: lambda: f"({one()} % 1.5)", 15: lambda: f"({one()} // 0.75)", 16: lambda: f"{one()} ** 2",
            17: lambda: f"float(np.float32({one()}))", 18: lambda: self.reduced("f"), 19: lambda: self.reduced("f"),
            20: self.drawn, 21: lambda: f"scaled({one()})", 22: lambda: f"scaled({one()}, by={other()})",
            23: lambda: f"positive({one()})", 24: lambda: f"math.atan2({one()}, {other()})",
            25: lambda: f"KEYED[{self.one_of('0', '1', '2')}]", 26: lambda: f"WEIGHTS[{self.one_of('0', '-1', 'k')}]",
            27: lambda: f"({whole()} / 4)", 28: lambda: f"added({one()}, {other()})",
            29: lambda: f"math.hypot({one()}, {other()})",
        }  # fmt: skip
        return texts[choice]()

    def drawn(self) -> str:
        return self.one_of(
            "rng.random()", "rng.uniform(-1.0, 2.0)", "rng.normal()", "rng.normal(0.5, p.speed)", "uniform(rng, 0.0, 3.0)",
            "rng.exponential(2.0)", "rng.standard_normal()", "rng.choice(s.x)", "choice(rng, WEIGHTS)",
            "rng.choice(CURVE, p=CURVE)", "rng.uniform(high=2.0)",
        )  # fmt: skip

    def _int(self, depth: int) -> str:
        if depth <= 0:
            own = [*self._locals_of(int), "s.n", "s.h", "s.w", "s.z", "p.lives", "LIMIT", "k", "NAMED['low']"]
            return self.one_of(
                str(self.random.randint(-4, 9)), self.random.choice(own), self.random.choice(own), self.element("i")
            )
        one, other = (lambda: self._int(depth - 1)), (lambda: self._int(depth - 1))
        choice = self.random.randrange(25)
        texts = {
            0: lambda: f"({one()} + {other()})", 1: lambda: f"({one()} - {other()})", 2: lambda: f"({one()} % 13 * {other()})",
            3: lambda: f"({one()} // {self.one_of('3', '-2', '7')})", 4: lambda: f"({one()} % {self.one_of('5', '-3', '11')})",
            5: lambda: f"-{one()}", 6: lambda: f"abs({one()})", 7: lambda: f"min({one()}, {other()})",
            8: lambda: f"max({one()}, {other()}, 2)", 9: lambda: f"small({self._float(depth - 1)})",
            10: lambda: f"({one()} & {other()})", 11: lambda: f"({one()} | {other()})", 12: lambda: f"({one()} ^ 5)",
            13: lambda: f"({one()} if {self._bool(depth - 1)} else {other()})", 14: lambda: f"({one()} >> 1)",
            15: lambda: f"({one()} % 8 << 2)", 16: lambda: self.reduced("i"), 17: lambda: self.reduced("i"),
            18: lambda: self.one_of("rng.integers(5)", "rng.integers(-3, 4)", "integers(rng, 1, 6, endpoint=True)",
                                    "rng.poisson(2.0)", "rng.binomial(5, 0.25)", "rng.geometric(0.5)", "rng.choice(4)",
                                    "choice(rng, TABLE)", "rng.choice(s.i)", "rng.choice([1, 5, 7])"),
            19: lambda: f"int({self._bool(depth - 1)})", 20: lambda: f"~{one()}", 21: lambda: f"positive({one()})",
            22: lambda: f"round(min(max({self._float(0)}, -9.0), 9.0))", 23: lambda: f"total({self.one_of('s.c', 's.i', 'TABLE', 's.u')})",
            24: lambda: f"2 ** ({one()} % 6)",
        }  # fmt: skip
        return texts[choice]()

    def _bool(self, depth: int) -> str:
        if depth <= 0:
            own = [*self._locals_of(bool), "s.t", "True"]
            return self.one_of(self.random.choice(own), self.random.choice(own), self.element("b"))
        choice = self.random.randrange(14)
        compare = self.one_of("<", ">", "==", "!=", "<=", ">=")
        texts = {
            0: lambda: f"{self._float(depth - 1)} {compare} {self._float(depth - 1)}",
            1: lambda: f"{self._int(depth - 1)} {compare} {self._int(depth - 1)}",
            2: lambda: f"{self._int(depth - 1)} {compare} {self._float(depth - 1)}",
            3: lambda: f"({self._bool(depth - 1)} and {self._bool(depth - 1)})",
            4: lambda: f"({self._bool(depth - 1)} or {self._bool(depth - 1)})", 5: lambda: f"not ({self._bool(depth - 1)})",
            6: lambda: self.reduced("b"), 7: lambda: self.reduced("b"),
            8: lambda: f"0 <= {self._int(depth - 1)} < {self._int(0)}", 9: lambda: f"{self._int(0)} in {self.one_of('s.c', 's.i', 'TABLE', '(1, 2, 3)')}",
            10: lambda: f"bool({self._int(depth - 1)})", 11: lambda: f"rng.random() < {self._float(0)}",
            12: lambda: f"({self._bool(depth - 1)}) == ({self._bool(0)})", 13: lambda: f"np.array_equal({self.arr(1)}, {self.arr(1)})",
        }  # fmt: skip
        return texts[choice]()

    def element(self, kind: str) -> str:
        """An element that is read."""
        kinds = {"f": "f", "i": "iu", "b": "b"}[kind]
        names = [f"s.{name}" for name in self.arrays] + self._own_arrays() + ["TABLE", "MOVES", "CURVE", "p.curve"]
        fits = [name for name in names if self.value(name).dtype.kind in kinds]
        name = self.random.choice(fits)
        return f"{name}[{', '.join(self.index(size) for size in self.value(name).shape)}]"

    def reduced(self, kind: str) -> str:
        """A number of an array."""
        text = self.arr(1)
        array = self.value(text)
        if not isinstance(array, np.ndarray) or not array.ndim:
            raise Unwritable(text)
        if kind == "b":
            function = self.one_of("any", "all")
            return f"np.{function}({text})" if self.random.random() < 0.6 else f"({text}).{function}()"
        if kind == "i" and (array.dtype.kind == "f" or self.random.random() < 0.4):
            return self.one_of(
                f"np.argmax({text})", f"({text}).argmin()", f"np.count_nonzero({text})", f"len({text})", f"({text}).size",
                f"({text}).shape[0]",
            )  # fmt: skip
        if kind == "f" and array.dtype.kind == "f" and array.ndim == 1 and self.random.random() < 0.2:
            return self.one_of(f"({text}) @ ({text})", f"np.dot({text}, {text})", f"np.linalg.norm({text})")
        function = self.one_of("sum", "max", "min", "sum", "mean" if kind == "f" else "max")
        if function != "mean" and array.dtype.kind == "b":
            function = "sum"
        return f"np.{function}({text})" if self.random.random() < 0.5 else f"({text}).{function}()"

    # --- arrays ------------------------------------------------------------------------------------------------------

    def arr(self, depth: int) -> str:
        """An expression that is an array."""
        if depth <= 0 or self.random.random() < 0.1:
            names = [f"s.{name}" for name in self.arrays]
            return self.one_of(
                self.random.choice(names), self.random.choice(self._own_arrays() or names), "CURVE", "p.curve", "TABLE"
            )
        one = lambda: self.arr(depth - 1)  # noqa: E731  # as short as the others
        known = self.value(first := one())
        kind = known.dtype.kind if isinstance(known, np.ndarray) else "?"
        like = [f"s.{name}" for name in self.arrays if getattr(self.names["s"], name).shape[-1:] == known.shape[-1:]]
        other = self.random.choice(like) if like and self.random.random() < 0.7 else one()
        is_narrow = kind in "iu" and known.itemsize < 8 and self.value(other).dtype.itemsize < 8
        multiply = f"({first} * {other})" if kind == "f" or is_narrow else f"({first} % 7 * {other})"
        number = self._float(0) if kind == "f" else self.one_of("1", "2", "3", "-1") if kind == "i" else "2"
        choice = self.random.randrange(48)
        compare = self.one_of("<", ">", "==", "!=", "<=", ">=")
        size = known.shape[0]
        dtype = self.one_of("np.int8", "np.int16", "np.uint8", "np.float32", "float", "int", "np.int32")
        texts = {
            0: lambda: f"({first} + {other})", 1: lambda: f"({first} - {other})", 2: lambda: multiply,
            3: lambda: f"({first} / {other})", 4: lambda: f"({first} + {number})", 5: lambda: f"({number} - {first})",
            6: lambda: f"({first} {compare} {other})", 7: lambda: f"({first} {compare} {number})", 8: lambda: f"abs({first})",
            9: lambda: f"-{first}", 10: lambda: f"np.where({self.mask_for(first, known)}, {first}, {other})",
            11: lambda: f"np.where({self.mask_for(first, known)}, {first}, {number})",
            12: lambda: f"np.clip({first}, 0, {self.one_of('1', '3', '2')})", 13: lambda: f"np.minimum({first}, {other})",
            14: lambda: f"np.maximum({first}, {number})", 15: lambda: f"np.sign({first})", 16: lambda: f"np.floor({first})",
            17: lambda: f"np.sqrt(np.abs({first}))", 18: lambda: f"{first}[::-1]", 19: lambda: f"np.roll({first}, {self.one_of('1', '-1', 'k', 's.n')})",
            20: lambda: f"np.flip({first})", 21: lambda: f"{first}.copy()", 22: lambda: f"({first} % {self.one_of('3', '5')})",
            23: lambda: f"({first} // {self.one_of('3', '2')})", 24: lambda: f"({first} & {other})", 25: lambda: f"~{first}",
            26: lambda: f"np.zeros({self.one_of('4', '(3, 4)')}, {dtype})", 27: lambda: f"np.full({self.one_of('4', '(3, 4)')}, {self._float(0)})",
            28: lambda: "np.arange(4)", 29: lambda: f"np.array([{self._float(0)}, {self._float(1)}, {self._int(0)}, {self._float(0)}])",
            30: lambda: f"{first}[{self.index(size)}]" if known.ndim > 1 else f"{first}[np.array([0, 2, 1, 3])]",
            31: lambda: f"{first}.T" if known.ndim > 1 else f"{first}.astype({self.one_of('float', 'np.float32')})",
            32: lambda: f"{first}.sum(axis={self.one_of('0', '1')})" if known.ndim > 1 else f"({first} * p.speed)",
            33: lambda: f"{first}.max(axis={self.one_of('0', '1')})" if known.ndim > 1 else f"scaled({first})",
            34: lambda: f"np.zeros_like({first})", 35: lambda: f"({first}).astype({dtype})" if kind != "f" else f"np.clip({first}, -9, 9).astype({dtype})",
            36: lambda: f"np.full_like({first}, 3)", 37: lambda: f"added({first}, {other})",
            38: lambda: f"row_of({first}, {self.index(size)})" if known.ndim > 1 else f"(CURVE {compare} {first})",
            39: lambda: f"np.rot90({self.one_of('s.q', 's.b', 's.m')}, {self.one_of('1', '2')})",
            40: lambda: self.one_of("rng.normal(0.0, 2.0, size=4)", "rng.integers(-3, 9, size=(3, 4))", "rng.random((3, 4))"),
            41: lambda: self.one_of("rng.permutation(4)", "rng.choice(9, 4, replace=False)", "rng.multinomial(6, CURVE)"),
            42: lambda: f"{first}[[0, 2]]" if known.ndim == 1 else f"{first}.reshape({known.size})",
            43: lambda: self.one_of("s.q @ s.x", "s.x @ s.q", "s.q @ s.q", "s.q.dot(s.y)"),
            44: lambda: f"np.array([{self._int(0)}, {self._int(0)}, {self._int(0)}, {self._int(0)}], {dtype})" if dtype[-1] in "264" else "np.ones(4)",
            45: lambda: f"{first}.mean(axis={self.one_of('0', '1')})" if known.ndim > 1 else f"np.square({first})" if kind == "f" else f"{first}[1:]",
            46: lambda: f"np.logical_and({first}, {other})", 47: lambda: f"np.concatenate(({first}, {other}))",
        }  # fmt: skip
        text = texts[choice]()
        if kind == "f" and choice == 35 and bool(np.isnan(known).any()):
            raise Unwritable(text)
        return text


class Careless:
    """Writes a program with a mistake, or what may be one: values of any kind meet functions of any kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.name = f"program{seed}"

    def program(self) -> str:
        """The text of the function."""
        lines = [f"v{number} = {self.value(1)}" for number in range(self.random.randint(0, 2))]
        self.known = [f"v{number}" for number in range(len(lines))]
        lines += [line for _ in range(self.random.randint(1, 2)) for line in self.statement()]
        return f"def {self.name}(s, rng, p, k):\n" + "".join(
            f"    {line}\n" for line in [*lines, "return rng.random()"]
        )

    known: list[str] = []  # set when the first lines are written

    def statement(self) -> list[str]:
        a, b, c = self.value(), self.value(), self.value()
        field, name = self.random.choice([f"s.{name}" for name in FIELDS]), self.random.choice(["w", "v0", "v1"])
        operator = self.random.choice("+ - * / // % ** & | ^ << >> @".split())
        texts = [
            [f"{field} = {a}"], [f"{name} = {a}", f"{field} = {name}"], [f"{field} {operator}= {a}"], [f"{field}[{b}] = {a}"],
            [f"{field}[:] = {a}"], [f"{field}[{b}, {c}] = {a}"], [f"{name}, w = {a}"], [f"w, {name} = {a}, {b}"],
            [f"if {a}:", "    s.n = 1"], [f"while {a}:", "    break"], [f"for w in {a}:", f"    {field} = w"],
            [f"for w, {name} in {a}:", "    s.a = w"], [f"w = {a}", f"if {b} > 0:", f"    w = {c}", "s.a = w"],
            [f"w = {a} if s.t else {b}"], [f"return {a}"], [f"{a}"], [f"assert {a}"], [f"w = {a}", f"w[{b}] = {c}"],
            [f"w = {a}", f"w {operator}= {b}", "s.a = w"], [f"w = {a}", f"s.x[: len(w)] = {b}"],
            [f"if {a}:", "    w = 1", f"{field} = w"], [f"for w in range({a}):", f"    w = {b}"], [f"w = ({a}).{self.attribute()}"],
        ]  # fmt: skip
        return self.random.choice(texts)

    def attribute(self) -> str:
        return self.random.choice(
            ["sum()", "T", "shape", "max(axis=0)", "copy()", "astype(int)", "size", "any()", "dot(s.x)"]
        )

    def value(self, depth: int = 2) -> str:
        if depth <= 0 or self.random.random() < 0.3:
            plain = ["1", "0.5", "True", "None", "-3", "(1, 2)", "(0.5, s.n, True)", "SCALE", "TABLE", "MOVES", "CURVE", "WEIGHTS", "NEIGHBOURS",
                     "k", "p.speed", "p.curve", "()", "[1, 2, 3]", "'text'", "rng", "s", "p", "np", "float", "small", "undefined"]  # fmt: skip
            return self.random.choice([*plain[:-8], *plain, *(f"s.{name}" for name in FIELDS), *self.known * 6])
        a, b, c = self.value(depth - 1), self.value(depth - 1), self.value(depth - 1)
        operator = self.random.choice("+ - * / // % ** & | ^ << >> @ < == in and or".split())
        function = self.random.choice(
            "abs all any bool divmod enumerate float int len max min pow range reversed round sum zip sorted list math.sin math.floor math.atan2 "
            "math.gcd np.sum np.max np.argmax np.zeros np.ones np.full np.array np.arange np.where np.clip np.minimum np.abs np.floor np.sqrt np.roll "
            "np.flip np.rot90 np.concatenate np.nonzero np.argwhere np.dot np.linalg.norm np.exp np.sort np.float32 np.int8 small scaled added row_of both "
            "total halves positive moved set_row add_into grown rng.random rng.uniform rng.integers rng.normal rng.choice rng.shuffle rng.permutation "
            "rng.poisson rng.binomial rng.gamma fill_normal shuffle sample permutation multinomial uniform choice".split()
        )
        count = self.random.choice([1, 1, 2, 2, 3])
        arguments = ", ".join([a, b, c][:count])
        keyword = self.random.choice(["axis=0", "size=4", "by=2", "dtype=int", "out=s.x", "p=CURVE"])
        texts = [f"({a} {operator} {b})", f"{function}({arguments})", f"{function}({a}, {keyword})", f"({a})[{b}]", f"({a})[{b}:{c}]", f"-{a}", f"~{a}",
                 f"(not {a})", f"({a} if {b} else {c})", f"({a}, {b})", f"[{a}, {b}]", f"({a}).{self.attribute()}"]  # fmt: skip
        return self.random.choice([*texts, *texts[:3]])


def filled(name: str, array: np.ndarray, generator: np.random.Generator) -> None:
    """Write values of a state."""
    if array.dtype.kind == "f":
        array[...] = np.round(generator.normal(0, 1, array.shape), 2)
    elif array.dtype.kind == "b":
        array[...] = generator.integers(0, 2, array.shape)
    else:
        array[...] = generator.integers(-7 if array.dtype.kind == "i" else 0, 8, array.shape)


IMPORTS = """
import math

import numpy as np
from gymnasium.spaces import Box, Discrete

import vecenv
from vecenv.kernel import Queue
from vecenv.kernel.rng import (
    choice, fill_choice, fill_integers, fill_normal, fill_uniform, integers, multinomial, permutation, sample, shuffle, uniform,
)
"""


def library() -> dict[str, Any]:
    """Names that programs use, as plain NumPy sees them."""
    names: dict[str, Any] = {}
    exec(IMPORTS + LIBRARY, names)
    return names


def program(seed: int, names: dict[str, Any]) -> str:
    """The text of one program."""
    return Writer(seed, dict(names)).program()


def module(programs: list[str]) -> str:
    """A module with a kernel `Programs`, whose action says which program runs."""
    names = [text.split("(")[0].removeprefix("def ") for text in programs]
    state = ", ".join(f"'{name}': {text}" for name, text in FIELDS.items())
    params = "".join(f"        {name} = {text}\n" for name, text in PARAMS.items())
    calls = "".join(
        f"        {'if' if place == 0 else 'elif'} action == {place}:\n            reward = {name}(s, rng, p, 2)\n"
        for place, name in enumerate(names)
    )
    kernel = f"""

@vecenv.kernel("Programs-v0")
class Programs:
    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete({len(programs)})
    state = {{{state}}}

    class Params:
{params}
    def reset(s, rng, p):
        s.n = 0

    def step(s, action, rng, p):
        reward = 0.0
{calls}        return reward, False

    def observe(s, obs, p):
        obs[0] = s.a
"""
    return IMPORTS + LIBRARY + "\n\n" + "\n\n".join(programs) + textwrap.dedent(kernel)
