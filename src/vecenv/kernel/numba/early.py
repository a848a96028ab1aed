"""Calls of the C library's mathematics in a step are made before it, in a loop of their own, see `call_early`.

    for i in range(n):                                   for i in range(n):
        ... = step(S_x[i], S_theta[i], ...)                  E_0[i], E_1[i] = early(S_x[i], S_theta[i], ...)
                                                         for i in range(n):
                                                             ... = step(S_x[i], S_theta[i], ..., E_0[i], E_1[i])

The second loop then has no calls, and LLVM steps several rows with one instruction. Nothing is computed otherwise.

Where all calls are of sin and cos, a function `near` computes most of their results for several rows at once
(`near.py`), and `early` is called for the other rows alone.
"""

from __future__ import annotations

import ast
import dataclasses
import platform
from collections.abc import Collection

from vecenv.kernel.lower.tree import copied, local
from vecenv.kernel.numba.emit import EmittedFunction, EmittedProgram

_POLYNOMIALS = ("sin", "cos", "tan", "exp", "log", "tanh")
"""In fast precision these are no calls (`math.py`)."""
_CALLS = (*_POLYNOMIALS, "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh")
_CALLS += ("exp2", "expm1", "log1p", "log2", "log10")
_PLAIN = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
MOST = 8
"""Calls. Their results are kept for all rows of a block."""
_NEAR = {"math__sin": "near__sin", "math__cos": "near__cos"}


def call_early(emitted: EmittedProgram, precision: str) -> EmittedProgram:
    """Take calls out of the step whose arguments are known before it begins.

    Returns:
        The program with a function `early`, which returns what the step gets as its last arguments, and perhaps a
        function `near`, which returns the same or NaN; the same program if there is nothing to gain: the step has
        loops or branches of its own, or no such calls.
    """
    step = emitted.functions["step"]
    if not step.registers or step.function.guarded or emitted.program.sites:
        return emitted
    names = {f"math__{name}" for name in _CALLS if precision == "exact" or name not in _POLYNOMIALS}
    node = copied(step.node)
    taken = _TakeOut(names, {argument.arg for argument in node.args.args}, emitted.program.constants)
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            statement.value = taken.visit(statement.value)
        taken.known -= {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and _is_stored(one)}
    if not taken.calls:
        return emitted
    early = copied(step.node)
    value = taken.calls[0] if len(taken.calls) == 1 else ast.Tuple(taken.calls, ast.Load())
    early.name, early.body = "early", [ast.Return(value)]
    node.args.args += [ast.arg(f"early{place}__") for place in range(len(taken.calls))]
    functions = {}
    for name, one in emitted.functions.items():
        if name == "step":
            function = dataclasses.replace(step.function, name="early", method="early", assigned=())
            functions["early"] = EmittedFunction(function, ast.fix_missing_locations(early), True)
            near = _near(early)
            if near is not None:
                function = dataclasses.replace(function, name="near", method="near")
                functions["near"] = EmittedFunction(function, near, True)
            functions["step"] = EmittedFunction(step.function, ast.fix_missing_locations(node), True)
        else:
            functions[name] = one
    return EmittedProgram(emitted.program, functions)


def _near(early: ast.FunctionDef) -> ast.FunctionDef | None:
    """The function `near` for a function `early`, or None if there is none that is quicker.

    The C library must be the one whose errors are known, and the processor must multiply and add at once.
    """
    import llvmlite.binding as llvm  # late: without Numba kernels are checked all the same

    can_fuse = platform.machine() == "aarch64" or llvm.get_host_cpu_features().get("fma", False)
    near = copied(early)
    near.name = "near"
    called = [node.func for node in ast.walk(near) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    if not can_fuse or platform.libc_ver()[0] != "glibc" or any(name.id not in _NEAR for name in called):
        return None
    for name in called:
        name.id = _NEAR[name.id]
    return near


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


class _TakeOut(ast.NodeTransformer):
    """Replaces calls that are always made by variables, and keeps them. `known`: parameters not assigned so far."""

    def __init__(self, functions: Collection[str], known: set[str], constants: Collection[str]) -> None:
        self.functions, self.known, self.constants = functions, known, constants
        self.calls: list[ast.expr] = []

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.visit(node.test)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values[0] = self.visit(node.values[0])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self.functions or not self._is_known(node):
            return node
        texts = [ast.dump(call) for call in self.calls]
        if ast.dump(node) not in texts:
            if len(self.calls) == MOST:
                return node
            self.calls.append(node)
            texts.append(ast.dump(node))
        return ast.copy_location(local(f"early{texts.index(ast.dump(node))}__"), node)

    def _is_known(self, call: ast.Call) -> bool:
        parts = [part for argument in call.args for part in ast.walk(argument)]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        fits = all(isinstance(part, _PLAIN) for part in parts) and not call.keywords
        return fits and all(name in self.known or name in self.constants for name in names)
