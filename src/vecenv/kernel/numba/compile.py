"""The compiler: from emitted functions and a row loop to an object file in memory. The one module that drives Numba."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import Counter
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.untyped_passes import DeadBranchPrune
from numba.extending import intrinsic
from numba.np import arrayobj

from vecenv.errors import KernelError
from vecenv.kernel.lower.program import Program
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.numba import interrupts, pcg64
from vecenv.kernel.numba.checks import checks, poll
from vecenv.kernel.numba.emit import EmittedFunction, EmittedProgram
from vecenv.kernel.numba.math import ALONE, EXACT, FAST, functions, local_array
from vecenv.kernel.numba.near import near_cos, near_sin
from vecenv.kernel.numba.one_module import object_code, parts_of_one_module
from vecenv.kernel.numba.row_loop import compile_row_loop

_LONGEST_INLINED = 3000
"""Nodes of the syntax tree of a helper and of those that it calls, times the number of its calls."""
_IN_LOOPS = ("near", "early", "step", "observe", "policy")
"""Methods that are called for all rows in a loop, of which they become part."""
_DEFECT = (
    "no native code can be made of {}, although it breaks no rule of kernels: a defect of vecenv. Please report it "
    'with the kernel and the error\'s `compiler_text`; engine="sync" runs it meanwhile'
)


class _AllBranches(CompilerBase):
    """Numba's compiler without its pass that removes branches which a constant decides; LLVM removes them anyway.

    After that pass, a variable of a removed loop that is read later has no type, and Numba refuses the function.
    """

    def define_pipelines(self) -> list[PassManager]:
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager = PassManager("all branches")
        manager.passes = [one for one in usual.passes if one[0] is not DeadBranchPrune]
        manager.finalize()
        return [manager]


def compile_program(emitted: EmittedProgram, driver: str, precision: str) -> tuple[bytes, str]:
    """Compile a kernel.

    Args:
        emitted: methods and helpers.
        driver: text of the row loop.
        precision: "exact" or "fast".

    Returns:
        An object file, and the symbol of its entry (`entry.py`).

    Raises:
        KernelError: the code cannot be compiled; it names the line if the compiler does.
    """
    options: dict[str, Any] = {**(FAST if precision == "fast" else EXACT), **ALONE}
    names = _names(emitted.program, precision)
    apart = _helpers_apart(emitted)
    for name, one in emitted.functions.items():
        exec(compile(ast.Module([one.node], []), one.function.source.file, "exec"), names)
        names[name] = njit(forceinline=name not in apart, pipeline_class=_AllBranches, **options)(names[name])
    inlined = {
        name
        for name, one in emitted.functions.items()
        if (name not in apart if one.function.method is None else name in _IN_LOOPS and not one.function.guarded)
    }
    written = {} if emitted.program.sites else {name: one.node for name, one in emitted.functions.items()}
    own_memory = not emitted.program.kernel.shared
    try:
        with parts_of_one_module():
            library, symbol = compile_row_loop(driver, names, inlined, options, own_memory, written)
        return object_code(library, symbol), symbol
    except Exception as error:  # Numba and LLVM raise errors of many types
        raise _explained(error, emitted) from None


def _helpers_apart(emitted: EmittedProgram) -> set[str]:
    """Helpers that stay functions, of those that are called more than once: long ones, and ones with a `while` loop.

    The others become part of every function that calls them. LLVM by itself leaves calls of longer ones, which hide
    from it what memory and which sizes they use. A `while` loop cannot be unrolled, so it gains nothing from that, and
    one copy of it is predicted better by the processor than several.
    """
    sizes: dict[str, int] = {}
    while_loops: set[str] = set()
    calls: Counter[str] = Counter()
    for name, one in emitted.functions.items():  # helpers come before those that call them
        nodes = list(ast.walk(one.node))
        called = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        inside = [helper for helper in called if helper in sizes]
        calls.update(inside)
        sizes[name] = len(nodes) + sum(sizes[helper] for helper in inside)
        if any(isinstance(node, ast.While) for node in nodes):
            while_loops.add(name)
    return {
        name
        for name, count in calls.items()
        if count > 1 and (name in while_loops or count * sizes[name] > _LONGEST_INLINED)
    }


def _names(program: Program, precision: str) -> dict[str, Any]:
    """What the generated code may use, by name. The symbols that `poll__` needs are made known to LLVM.

    Numba links functions that others use, although they are not run from there.
    """
    for name, address in interrupts.symbols().items():
        llvm.add_symbol(name, address)
    names: dict[str, Any] = {"np": np, **functions(precision), **program.constants}
    names |= {
        "near__sin": near_sin,
        "near__cos": near_cos,
        "seed_stream": pcg64.seed_stream,
        "poll__": poll,
        **checks(),
    }
    for draw in program.draws:
        names[f"rng__{draw}"] = getattr(importlib.import_module("vecenv.kernel.numba.draws"), draw)
    for name, module in program.twins.items():
        names[f"twin__{name}"] = getattr(importlib.import_module(module), name)
    for name in _local_arrays(program):
        _, dtype, sizes = name.rsplit("_", 2)
        names[f"{name}__"] = local_array(dtype, tuple(map(int, sizes.split("x"))))
    return names


def _local_arrays(program: Program) -> set[str]:
    """The operations that declare local arrays, by name."""
    return {
        node.name
        for function in program.functions
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, Ref) and node.kind is Kind.OPERATION and node.name.startswith("local_array_")
    }


@functools.cache
def column(dtype: str, dimensions: int) -> Any:
    """A function `(address, shape)` that views memory as an array. The shape is a tuple, or the one axis's size."""
    element = types.boolean if dtype == "bool" else getattr(types, dtype)
    array_type = types.Array(element, dimensions, "C")

    @intrinsic
    def view(typing_context: Any, address: Any, shape: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            data_type = context.get_data_type(element)
            item = word(context.get_abi_sizeof(data_type))
            many = isinstance(signature.args[1], types.BaseTuple)
            sizes = cgutils.unpack_tuple(builder, arguments[1], dimensions) if many else [arguments[1]]
            sizes = [builder.trunc(size, word) if size.type.width > 64 else size for size in sizes]
            strides, stride = [], item
            for size in reversed(sizes):
                strides.insert(0, stride)
                stride = builder.mul(stride, size)
            array = arrayobj.make_array(array_type)(context, builder)
            data = builder.inttoptr(arguments[0], data_type.as_pointer())
            arrayobj.populate_array(array, data=data, shape=sizes, strides=strides, itemsize=item, meminfo=None)
            return array._getvalue()

        return array_type(address, shape), generate

    return view


def _explained(error: Exception, emitted: EmittedProgram) -> KernelError:
    """A KernelError with function and line; the compiler's own text is an attribute of it, for a report."""
    text = str(error) or type(error).__name__
    function, line = _place(text, emitted)
    source = function.function.source if function is not None else None
    rule = _DEFECT.format("this kernel" if source is None else "this line")
    error_of_ours = KernelError(rule, emitted.program.kernel.name, source and source.name, source and source.file, line)
    error_of_ours.compiler_text = text
    return error_of_ours


def _place(text: str, emitted: EmittedProgram) -> tuple[EmittedFunction | None, int | None]:
    """The innermost of the user's lines that the message names."""
    for file, line in reversed(re.findall(r"(?:at|File) \"?([^\"\n(]+?)\"?(?:, line | \()(\d+)", text)):
        for one in emitted.functions.values():
            last = getattr(one.node, "end_lineno", one.node.lineno)
            if one.function.source.file.endswith(file.strip()) and one.node.lineno <= int(line) <= last:
                return one, int(line)
    return None, None
