"""Emitted functions run by Python, without the compiler: what the stages before a backend make of a kernel."""

from __future__ import annotations

import ast
import copy
import math
from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.layout import Layout
from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.lower.program import Program
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.lower.tree import Ref
from vecenv.kernel.numba.emit import emit

_INTS = "int8 int16 int32 int64 uint8 uint16 uint32".split()


class EmittedEnv:
    """One env, run by the emitted functions. `state` has an array for each field, of one element for a number."""

    def __init__(self, kernel: Kernel, **kwargs: Any) -> None:
        self.kernel, self.parameters = kernel, kernel.parameters(kwargs, 1)
        spaces = kernel.spaces(kernel.record(self.parameters))
        self.observation, self.action = map(Layout, spaces)
        self.program = resolve(kernel, self.observation, self.action)
        self.emitted = emit(self.program)
        self.names = _namespace(self.program)
        self.text = self.emitted.text
        nodes = [_PlainBools().visit(copy.deepcopy(function.node)) for function in self.emitted.functions.values()]
        exec(compile(ast.fix_missing_locations(ast.Module(nodes, [])), "<emitted>", "exec"), self.names)
        self.state = {name: np.zeros(field.shape or (1,), field.dtype) for name, field in kernel.state.items()}
        self.rng: Any = None

    def reset(self, seed: int | None = None) -> list[np.ndarray]:
        if seed is not None:
            self.rng = gymnasium.utils.seeding.np_random(seed)[0]
        self._call("reset", self.rng)
        return self.observe()

    def step(self, action: Any) -> tuple[Any, ...]:
        given = [np.asarray(action).item()] if np.ndim(action) == 0 else [np.asarray(action)]
        return self._call("step", *given, self.rng)

    def observe(self) -> list[np.ndarray]:
        leaves = [np.zeros(leaf.shape or (1,), leaf.dtype) for leaf in self.observation.leaves]
        self._call("observe", *leaves)
        return leaves

    def _call(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        one, kernel = self.emitted.functions[name], self.kernel

        def field(its: str) -> Any:
            held = self.state[its]
            return held if kernel.state[its].shape or not one.registers else held[0].item()

        params = [
            self.parameters[its][0] if kernel.params[its].shape else self.parameters[its][0].item()
            for its in kernel.params
        ]
        with np.errstate(all="ignore"):
            result = self.names[name](*map(field, kernel.state), *arguments, *params)
        own = 3 if name == "step" else 0
        values = result if isinstance(result, tuple) else ()
        for its, value in zip(one.assigned, values[own:], strict=True):
            self.state[its][0] = value
        return values[:own]


class _PlainBools(ast.NodeTransformer):
    """Comparisons give Python's bools, which are ints to compute with, as in native code; NumPy's refuse `-`."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return ast.Call(ast.Name("as_bool__", ast.Load()), [node], [])


def _namespace(program: Program) -> dict[str, Any]:
    names: dict[str, Any] = {f"math__{name}": getattr(math, name) for name in dir(math)}
    names |= {"widen__": _widen, "power__": pow, "assign__": _assign, "as_flag__": bool, "as_number__": np.float64}
    names |= {f"as_{dtype}__": _wrapping(dtype) for dtype in _INTS}
    names |= {
        "as_float32__": lambda value: np.float64(np.float32(value)),
        "as_float64__": np.float64,
        "as_bool__": bool,
    }
    names |= {f"{name}__": _rounding(name) for name in ("floor", "ceil", "trunc", "rint")}
    names |= {"flat__": _flat, "equals__": lambda element, value: element.item() == value}
    names["poll__"] = lambda: False  # nobody interrupts
    names["pairwise_sum__"] = lambda values, count: np.add.reduce(values[:count])
    names |= {f"rng__{draw}": getattr(random_numbers, draw) for draw in program.draws}
    names |= program.constants
    for function in program.functions:
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, Ref) and node.name.startswith("local_array_"):
                    names[f"{node.name}__"] = _local_array(node.name)
    return names


def _local_array(name: str) -> Any:
    _, dtype, sizes = name.rsplit("_", 2)
    shape = tuple(map(int, sizes.split("x")))
    return lambda: np.full(shape, 77).astype(dtype)  # not zero: it must be written before it is read


def _flat(array: np.ndarray) -> np.ndarray:
    assert array.flags.c_contiguous
    return array.reshape(-1)


def _widen(value: Any) -> Any:
    """As 64 bits. A float stays NumPy's, which goes on with infinity after a division by zero, as native code does."""
    if isinstance(value, np.floating):
        return np.float64(value)
    return value.item() if isinstance(value, np.generic) else value


def _assign(part: np.ndarray, value: Any) -> None:
    """Element by element, backwards if the part lies behind the value: what backends do about parts that overlap."""
    if not isinstance(value, np.ndarray):
        part[...] = value
        return
    assert value.ndim == part.ndim
    places = range(len(part))
    backwards = part.ctypes.data > value.ctypes.data
    for place in reversed(places) if backwards else places:
        here = place if len(value) > 1 else 0
        if part.ndim == 1:
            part[place] = value[here]
        else:
            _assign(part[place], value[here])


def _wrapping(dtype: str) -> Any:
    return lambda value: np.array(int(value)).astype(dtype).item()


def _rounding(name: str) -> Any:
    return lambda value: getattr(np, name)(value).item()
