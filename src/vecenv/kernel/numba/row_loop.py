"""The compiler of the row loop: its text becomes LLVM's, without Numba's inference, which takes a second for it.

The text (`driver.py`) is Python over a few types: 64-bit ints, floats, bools, and columns. A variable has the type of
its first value. Both sides of `a if test else b` are computed, so that LLVM sees no branch. Functions of the kernel are
compiled by Numba and called by its convention; what they return as a status is passed on.

LLVM gets to know what Numba cannot know: no column shares memory with another. Accesses of the loop itself have scopes
for it, functions of the kernel are called through a function of ours whose arguments do not alias.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.np import arrayobj

from vecenv.kernel.lower.columns import INTERRUPTED
from vecenv.kernel.numba.entry import SYMBOL, write_entry

_target: Any = cpu_target.target_context  # Numba's annotations do not say what it is
WORD, BYTE, FLAG, DOUBLE = ir.IntType(64), ir.IntType(8), ir.IntType(1), ir.DoubleType()
_COLUMN = re.compile(r"column_([a-z0-9]+)_(\d+)")
_LINE = 64
"""Bytes that a processor fetches at once."""
_ROWS = re.compile(r"rows_float64_(\d+)")
"""Declares a column on the stack."""
COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class NotInRowLoop(Exception):
    """The text has something that this compiler does not know."""


@dataclass(frozen=True)
class Number:
    """A value: a 64-bit int, a float or a bool, as LLVM's type says."""

    value: Any


@dataclass(frozen=True)
class View:
    """Memory as an array: of a column, or of one of its rows. Other scopes have other memory.

    Strides are numbers of elements; without them elements lie one behind the other.
    """

    data: Any
    element: Any
    shape: tuple[Any, ...]
    scope: str | None = None
    strides: tuple[Any, ...] | None = None

    @property
    def itemsize(self) -> int:
        return 1 if self.element == types.boolean else self.element.bitwidth // 8


@dataclass(frozen=True)
class Returned:
    """What a function returns: Numba's types of its values, or views without what is not constant; several or one."""

    parts: tuple[Any, ...]
    several: bool


def compile_row_loop(
    text: str,
    names: Mapping[str, Any],
    inlined: Collection[str],
    options: Mapping[str, Any],
    apart: bool,
    kernel: Mapping[str, ast.FunctionDef] | None = None,
) -> tuple[Any, str]:
    """Compile the row loop.

    Args:
        text: definitions of functions; `run` is the last.
        names: functions that Numba compiles, by the names that the text calls them by, and what they use.
        inlined: names of those that become part of what calls them, however large they are.
        options: Numba's, of functions that are made here.
        apart: whether no two columns share memory.
        kernel: those of the functions that need not be compiled by Numba (`kernel_functions.py`).

    Returns:
        A library of Numba's, which is not linked with those that it needs, and the symbol of its entry.

    Raises:
        NotInRowLoop: the text has something that this compiler does not know.
    """
    _target.refresh()  # loads its conversions
    library = _target.codegen().create_library("vecenv row loop")
    module = library.create_ir_module("vecenv row loop")
    module.context = ir.Context()  # its named types are no other module's
    nodes = ast.parse(text).body
    scopes = Scopes(module, _columns(nodes) if apart else ())
    flags = tuple(sorted(options.get("fastmath") or ()))
    calls = KernelCalls(module, library, names, inlined, options, apart, kernel or {})
    functions: dict[str, Any] = {}
    definitions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    for function in [Writer(node, module, functions, calls, scopes, flags) for node in definitions]:
        function.write()
    write_entry(module, functions["run"])
    library.add_ir_module(module)
    return library, SYMBOL


def _columns(nodes: Sequence[ast.stmt]) -> list[str]:
    """The scopes of all columns that the text names."""
    assigned = [node for function in nodes for node in ast.walk(function) if isinstance(node, ast.Assign)]
    names = [target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)]
    return sorted({"T", *(_scope_of(name) for name in names if name.isupper() or name[:2].rstrip("IM_").isupper())})


def _scope_of(name: str) -> str:
    """Columns of the same memory have one scope: the observation that a policy sees was written by the last step."""
    if name == "WORDS":
        return "TODO"
    if name.startswith(("C_", "L_")):
        return f"O_{name[2:]}"
    return f"P_{name[2:]}" if name.startswith("B_") else name


class Scopes:
    """Tells LLVM that accesses to one column do not touch another."""

    def __init__(self, module: Any, names: Collection[str]) -> None:
        domain = module.add_metadata([ir.MetaDataString(module, "vecenv columns")])
        scopes = {name: module.add_metadata([ir.MetaDataString(module, name), domain]) for name in names}
        self._own = {name: module.add_metadata([scope]) for name, scope in scopes.items()}
        self._others = {
            name: module.add_metadata([scope for other, scope in scopes.items() if other != name]) for name in scopes
        }

    def mark(self, instruction: Any, scope: str | None) -> Any:
        if scope in self._own:
            instruction.set_metadata("alias.scope", self._own[scope])
            instruction.set_metadata("noalias", self._others[scope])
        return instruction


class KernelCalls:
    """The functions of the kernel that the loop calls: written here, or functions of ours that call Numba's."""

    def __init__(
        self,
        module: Any,
        library: Any,
        names: Mapping[str, Any],
        inlined: Collection[str],
        options: Mapping[str, Any],
        apart: bool,
        kernel: Mapping[str, ast.FunctionDef],
    ) -> None:
        self._module, self._library, self._names, self._inlined, self._apart = module, library, names, inlined, apart
        self._options, self._kernel = options, kernel
        self.context = _target
        self._made: dict[Any, tuple[Any, Returned]] = {}
        self._expressions: dict[tuple[str, ...], Any] = {}
        self._depth = 0

    def __contains__(self, name: str) -> bool:
        return hasattr(self._names.get(name), "overloads")

    def definition(self, name: str) -> ast.FunctionDef | None:
        """A function of the kernel that need not be compiled by Numba, or None."""
        return self._kernel.get(name)

    def find(self, name: str, arguments: Sequence[Number | View]) -> tuple[Any, Returned]:
        """The function for these arguments, and what it returns.

        A view is passed as its address and the sizes that are not constant. What is returned is a struct: whether it
        failed, and the values.
        """
        key = name, tuple(map(numba_type, arguments)), tuple(map(_constants_of, arguments))
        if key not in self._made:
            self._made[key] = self._write(name, arguments) or self._make(name, self._names[name], arguments)
        return self._made[key]

    def expression(self, text: str, given: Mapping[str, Number | View]) -> tuple[Any, Returned]:
        """The function that computes an expression over these names, by Numba."""
        kinds = tuple(map(numba_type, given.values()))
        key = text, kinds, tuple(map(_constants_of, given.values()))
        if key not in self._made:
            function = self._expressions.get((text, *given))
            if function is None:
                scope = dict(self._names)
                exec(f"def expression({', '.join(given)}): return {text}", scope)
                function = njit(**cast(Any, {**self._options, "forceinline": True}))(scope["expression"])
                self._expressions[text, *given] = function
            try:
                self._made[key] = self._make("expression", function, list(given.values()))
            except NumbaError as error:
                raise NotInRowLoop(str(error)) from None  # where all is compiled by Numba, it names the line
        return self._made[key]

    def _write(self, name: str, arguments: Sequence[Number | View]) -> tuple[Any, Returned] | None:
        """Write a function without Numba; None if that is not possible."""
        if name not in self._kernel:
            return None
        from vecenv.kernel.numba.kernel_functions import KernelFunction  # late: it needs what is here

        flags = tuple(sorted(self._options.get("fastmath") or ()))
        self._depth += 1
        try:
            writer = KernelFunction(self._kernel[name], arguments, self._module, self, flags, self._names)
            try:
                writer.write()
            except NotInRowLoop:
                del self._module.globals[writer.function.name]
                raise
        except NotInRowLoop:
            return None
        finally:
            self._depth -= 1
        if name in self._inlined:
            writer.function.attributes.add("alwaysinline")
        if self._apart and self._depth == 0:  # called by the row loop: each array is in a column of its own
            for value in writer.function.args:
                if isinstance(value.type, ir.PointerType):
                    value.add_attribute("noalias")
        assert writer.returned is not None
        return writer.function, writer.returned

    def _make(self, name: str, dispatcher: Any, arguments: Sequence[Number | View]) -> tuple[Any, Returned]:
        """A function that calls what Numba compiles."""
        kinds = tuple(map(numba_type, arguments))
        dispatcher.compile(kinds)
        compiled = dispatcher.overloads[kinds]
        self._library.add_linking_library(compiled.library)
        returned = compiled.signature.return_type
        parts = list(cast(Any, returned)) if isinstance(returned, types.BaseTuple) else [returned]
        parts = [part for part in parts if not isinstance(part, types.NoneType)]
        if not all(isinstance(part, (types.Number, types.Boolean)) for part in parts):
            raise NotInRowLoop(f"{name} returns {returned}")
        values = [self.context.get_value_type(part) for part in parts]
        passed = [value.type for argument in arguments for value in passed_for(argument)]
        signature = ir.FunctionType(ir.LiteralStructType([FLAG, *values]), passed)
        function = ir.Function(self._module, signature, self._module.get_unique_name(f"vecenv_{name}"))
        function.linkage = "internal"
        if name in self._inlined or name == "expression":
            function.attributes.add("alwaysinline")
        builder, given = ir.IRBuilder(function.append_basic_block()), list(function.args)
        native = [self._native(builder, argument, kind, given) for argument, kind in zip(arguments, kinds, strict=True)]
        callee = self.context.declare_function(self._module, compiled.fndesc)
        status, result = self.context.call_conv.call_function(builder, callee, returned, kinds, native)
        if values:
            found = cgutils.unpack_tuple(builder, result) if isinstance(returned, types.BaseTuple) else [result]
            builder.ret(self._struct(builder, signature.return_type, [status.is_error, *found]))
        else:
            builder.ret(self._struct(builder, signature.return_type, [status.is_error]))
        return function, Returned(tuple(parts), isinstance(returned, types.BaseTuple))

    def _native(self, builder: Any, argument: Number | View, kind: Any, given: list[Any]) -> Any:
        """An argument as Numba has it, made of those that our function is given."""
        value = given.pop(0)
        if isinstance(argument, Number):
            return value
        if self._apart and self._depth == 0:
            value.add_attribute("noalias")
        shape = [size if isinstance(size, ir.Constant) else given.pop(0) for size in argument.shape]
        strides, stride = [], WORD(argument.itemsize)
        for size in reversed(shape):
            strides.insert(0, stride)
            stride = product(builder, stride, size)
        if argument.strides is not None:
            apart = [one if isinstance(one, ir.Constant) else given.pop(0) for one in argument.strides]
            strides = [product(builder, one, WORD(argument.itemsize)) for one in apart]
        array = arrayobj.make_array(kind)(self.context, builder)
        item = WORD(argument.itemsize)
        arrayobj.populate_array(array, data=value, shape=shape, strides=strides, itemsize=item, meminfo=None)
        return array._getvalue()

    def _struct(self, builder: Any, kind: Any, values: Sequence[Any]) -> Any:
        made = ir.Constant(kind, ir.Undefined)
        for number, value in enumerate(values):
            made = builder.insert_value(made, value, number)
        return made


def passed_for(argument: Number | View) -> list[Any]:
    """What is passed to a function of ours for an argument."""
    if isinstance(argument, Number):
        return [argument.value]
    sizes = [*argument.shape, *(argument.strides or ())]
    return [argument.data, *(size for size in sizes if not isinstance(size, ir.Constant))]


def _constants_of(argument: Number | View) -> tuple[Any, ...]:
    """The sizes of a view that are constant."""
    sizes = [*argument.shape, *(argument.strides or ())] if isinstance(argument, View) else []
    return tuple(size.constant if isinstance(size, ir.Constant) else None for size in sizes)


def numba_type(argument: Number | View) -> Any:
    if isinstance(argument, View):
        return types.Array(argument.element, len(argument.shape), "C" if argument.strides is None else "A")
    return {WORD: types.int64, FLAG: types.boolean, DOUBLE: types.float64}[argument.value.type]


def product(builder: Any, first: Any, second: Any) -> Any:
    if isinstance(first, ir.Constant) and isinstance(second, ir.Constant):
        return WORD(first.constant * second.constant)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, ir.Constant) and one.constant == 1:
            return other
    return builder.mul(first, second, flags=("nsw",))


class Writer:
    """Writes one function. Its arguments and what it returns are 64-bit ints; `T` is a table of them."""

    def __init__(
        self,
        node: ast.FunctionDef,
        module: Any,
        functions: dict[str, Any],
        calls: KernelCalls,
        scopes: Scopes,
        flags: tuple[str, ...],
    ) -> None:
        self.node, self.functions, self.calls, self.scopes, self.flags = node, functions, calls, scopes, flags
        self.context = _target
        arguments = [argument.arg for argument in node.args.args]
        name = module.get_unique_name(f"vecenv_{node.name}")
        self.function = ir.Function(module, ir.FunctionType(WORD, [WORD] * len(arguments)), name)
        self.function.linkage = "internal"
        functions[node.name] = self.function
        self.builder: Any = ir.IRBuilder(self.function.append_basic_block())
        self.variables: dict[str, Any] = {}
        """By name: a view, or where a number is kept."""
        for name, value in zip(arguments, self.function.args, strict=True):
            if name == "T":
                self._assign_name(name, self._memory(value, types.int64, (WORD(1),)))
            else:
                self._assign_name(name, Number(value))

    def write(self) -> None:
        self._statements(self.node.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(WORD(0))

    # --- statements --------------------------------------------------------------------------------------------------

    def _statements(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            method = getattr(self, f"_do_{type(statement).__name__}", None)
            if method is None:
                raise NotInRowLoop(ast.unparse(statement))
            method(statement)

    def _do_Expr(self, node: ast.Expr) -> None:
        self._value(node.value)

    def _do_Return(self, node: ast.Return) -> None:
        assert node.value is not None
        self.builder.ret(self._whole(self._value(node.value)))
        self.builder.position_at_end(self.function.append_basic_block())  # what follows is never reached

    def _do_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        value = self._value(node.value)
        if isinstance(target, ast.Tuple):
            if not isinstance(value, list):
                raise NotInRowLoop(ast.unparse(node))
            for name, one in zip(target.elts, value, strict=True):
                self._assign(name, one)
        else:
            self._assign(target, value)

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        left = self._value(_loaded(node.target))
        self._assign(node.target, self._computed(node.op, left, self._value(node.value), node))

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(target.id, value)
        elif isinstance(target, ast.Subscript):
            self._store(target, value)
        else:
            raise NotInRowLoop(ast.unparse(target))

    def _assign_name(self, name: str, value: Any) -> None:
        if isinstance(value, View):
            self.variables[name] = replace(value, scope=_scope_of(name))
            return
        if not isinstance(value, Number):
            raise NotInRowLoop(name)
        if name not in self.variables:
            with self.builder.goto_entry_block():
                self.variables[name] = self.builder.alloca(value.value.type, name=name)
        place = self.variables[name]
        if isinstance(place, View):
            raise NotInRowLoop(name)
        self.builder.store(self._as(value, place.type.pointee), place)

    def _store(self, target: ast.Subscript, value: Any) -> None:
        view = self._part(target)
        if not isinstance(value, Number):
            raise NotInRowLoop(ast.unparse(target))
        if not view.shape:
            self._write_element(view, value)
            return
        constant = value.value
        if not isinstance(constant, ir.Constant) or constant.constant != 0:  # only clearing
            raise NotInRowLoop(ast.unparse(target))
        cgutils.memset(self.builder, self._bytes_at(view), self._size(view), 0)

    def _do_If(self, node: ast.If) -> None:
        yes, no, after = (self.function.append_basic_block() for _ in range(3))
        self._branch(node.test, yes, no)
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self._statements(statements)
            self.builder.branch(after)
        self.builder.position_at_end(after)

    def _branch(self, test: ast.expr, yes: Any, no: Any) -> None:
        """Go to one of two blocks. Later parts of `and` are computed only if the earlier ones hold."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for part in test.values[:-1]:
                following = self.function.append_basic_block()
                self._branch(part, following, no)
                self.builder.position_at_end(following)
            test = test.values[-1]
        self.builder.cbranch(self._truth(self._value(test)), yes, no)

    def _do_For(self, node: ast.For) -> None:
        if not (isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)) or node.orelse:
            raise NotInRowLoop(ast.unparse(node))
        if not (isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range"):
            raise NotInRowLoop(ast.unparse(node.iter))
        bounds = [self._whole(self._value(argument)) for argument in node.iter.args]
        start, stop = (WORD(0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else WORD(1)
        before = self.builder.block
        body, after = self.function.append_basic_block(), self.function.append_basic_block()
        self.builder.cbranch(self.builder.icmp_signed("<", start, stop), body, after)
        self.builder.position_at_end(body)
        index = self.builder.phi(WORD)
        index.add_incoming(start, before)
        self._assign_name(node.target.id, Number(index))
        self._statements(node.body)
        following = self.builder.add(index, step, flags=("nsw",))
        index.add_incoming(following, self.builder.block)
        self.builder.cbranch(self.builder.icmp_signed("<", following, stop), body, after)
        self.builder.position_at_end(after)

    # --- expressions -------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Any:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise NotInRowLoop(ast.unparse(node))
        return method(node)

    def _of_Constant(self, node: ast.Constant) -> Number:
        kinds = {bool: FLAG, int: WORD, float: DOUBLE}
        if type(node.value) not in kinds:
            raise NotInRowLoop(ast.unparse(node))
        return Number(kinds[type(node.value)](node.value))

    def _of_Tuple(self, node: ast.Tuple) -> list[Any]:
        return [self._value(element) for element in node.elts]

    def _of_Name(self, node: ast.Name) -> Any:
        if node.id not in self.variables:
            raise NotInRowLoop(node.id)
        place = self.variables[node.id]
        return place if isinstance(place, View) else Number(self.builder.load(place))

    def _of_Subscript(self, node: ast.Subscript) -> Any:
        view = self._part(node)
        return view if view.shape else self._read_element(view)

    def _of_Attribute(self, node: ast.Attribute) -> Number:
        view = self._value(node.value)
        if not isinstance(view, View) or node.attr != "size":
            raise NotInRowLoop(ast.unparse(node))
        return Number(self._count(view))

    def _of_IfExp(self, node: ast.IfExp) -> Number:
        if any(isinstance(part, ast.Call) and self._has_effects(part) for part in ast.walk(node)):
            raise NotInRowLoop(ast.unparse(node))
        test = self._truth(self._value(node.test))
        yes, no = self._alike(self._value(node.body), self._value(node.orelse))
        return Number(self.builder.select(test, yes, no))

    def _has_effects(self, call: ast.Call) -> bool:
        return not (isinstance(call.func, ast.Name) and (call.func.id == "widen__" or _COLUMN.fullmatch(call.func.id)))

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Number:
        operand = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            return Number(self.builder.not_(self._truth(operand)))
        if isinstance(node.op, ast.USub):
            constant: Any = node.operand.value if isinstance(node.operand, ast.Constant) else None
            return Number(operand.value.type(-constant) if constant else self.builder.neg(self._whole(operand)))
        raise NotInRowLoop(ast.unparse(node))

    def _of_BoolOp(self, node: ast.BoolOp) -> Number:
        if any(isinstance(part, ast.Call) and self._has_effects(part) for part in ast.walk(node)):
            raise NotInRowLoop(ast.unparse(node))
        found, *others = [self._truth(self._value(value)) for value in node.values]
        for other in others:
            found = (self.builder.and_ if isinstance(node.op, ast.And) else self.builder.or_)(found, other)
        return Number(found)

    def _of_Compare(self, node: ast.Compare) -> Number:
        values = [self._value(part) for part in (node.left, *node.comparators)]
        found = None
        for operator, first, second in zip(node.ops, values, values[1:], strict=False):
            if type(operator) not in COMPARISONS:
                raise NotInRowLoop(ast.unparse(node))
            left, right = self._alike(first, second)
            sign = COMPARISONS[type(operator)]
            if left.type == DOUBLE:
                unequal = sign == "!="  # also of what is not a number
                one = (self.builder.fcmp_unordered if unequal else self.builder.fcmp_ordered)(sign, left, right)
            else:
                one = self.builder.icmp_signed(sign, left, right)
            found = one if found is None else self.builder.and_(found, one)
        return Number(found)

    def _of_BinOp(self, node: ast.BinOp) -> Number:
        return self._computed(node.op, self._value(node.left), self._value(node.right), node)

    def _computed(self, operator: ast.operator, first: Any, second: Any, node: ast.AST) -> Number:
        kind = type(operator)
        builder = self.builder
        if kind in (ast.BitAnd, ast.BitOr) and isinstance(first, Number) and isinstance(second, Number):
            left, right = self._alike(first, second)
            if left.type != DOUBLE:
                return Number((builder.and_ if kind is ast.BitAnd else builder.or_)(left, right))
        if kind in (ast.Add, ast.Sub, ast.Mult):
            left, right = self._alike(first, second)
            if left.type == FLAG:
                left, right = builder.zext(left, WORD), builder.zext(right, WORD)
            if left.type == DOUBLE:
                method = {ast.Add: builder.fadd, ast.Sub: builder.fsub, ast.Mult: builder.fmul}[kind]
                return Number(method(left, right, flags=self.flags))
            method = {ast.Add: builder.add, ast.Sub: builder.sub, ast.Mult: builder.mul}[kind]
            return Number(method(left, right))
        if kind in (ast.FloorDiv, ast.Mod):  # of sizes: not negative, by a positive constant
            left, right = self._whole(first), self._whole(second)
            if isinstance(right, ir.Constant) and right.constant > 0:
                return Number((builder.udiv if kind is ast.FloorDiv else builder.urem)(left, right))
        raise NotInRowLoop(ast.unparse(node))

    # --- calls -------------------------------------------------------------------------------------------------------

    def _of_Call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.keywords:
            raise NotInRowLoop(ast.unparse(node))
        name = node.func.id
        column = _COLUMN.fullmatch(name)
        if column:
            element = types.boolean if column[1] == "bool" else getattr(types, column[1])
            sizes = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            shape = tuple(self._whole(self._value(size)) for size in sizes)
            return self._memory(self._whole(self._value(node.args[0])), element, shape)
        rows = _ROWS.fullmatch(name)
        if rows:
            with self.builder.goto_entry_block():
                return View(self.builder.alloca(DOUBLE, size=WORD(int(rows[1]))), types.float64, (WORD(int(rows[1])),))
        arguments = [self._value(argument) for argument in node.args]
        if name == "widen__":
            return arguments[0]  # what is read has 64 bits
        if name == "min":
            first, second = map(self._whole, arguments)
            return Number(self.builder.select(self.builder.icmp_signed("<", second, first), second, first))
        if name in ("ones__", "zeros__"):
            return self._count_bits(name, self._whole(arguments[0]))
        if name == "prefetch__":
            return self._prefetch(*arguments)
        if name == "assign__":
            return self._copy(*arguments)
        if name in self.functions:
            return self._call_own(self.functions[name], arguments)
        if name in self.calls:
            return self._call_kernel(name, arguments)
        raise NotInRowLoop(name)

    def _count_bits(self, name: str, word: Any) -> Number:
        """How many bits of a word are set, or how many lie below the first that is set; the word is not zero then."""
        if name == "ones__":
            return Number(self.builder.ctpop(word))
        return Number(self.builder.cttz(word, FLAG(1)))

    def _prefetch(self, view: Any, ahead: Number) -> None:
        """Let the processor fetch the memory of a view for writing, or of the view so many rows ahead of it.

        There may be no such row: addresses that are not memory are ignored.
        """
        number, place, size = ir.IntType(32), self._bytes_at(view), self._size(view).constant
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        prefetch = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        first = ahead.value.constant * size
        for offset in dict.fromkeys((*range(0, size, _LINE), size - 1 if size % _LINE else 0)):
            address = self.builder.gep(place, [WORD(first + offset)])
            self.builder.call(prefetch, [address, number(1), number(3), number(1)])

    def _call_own(self, function: Any, arguments: list[Any]) -> Number:
        """Call another function of the text."""
        values = [
            self.builder.ptrtoint(argument.data, WORD) if isinstance(argument, View) else self._whole(argument)
            for argument in arguments
        ]
        result = self.builder.call(function, values)
        self._pass_on(self.builder.icmp_signed("==", result, WORD(INTERRUPTED)))
        return Number(result)

    def _call_kernel(self, name: str, arguments: list[Any]) -> Any:
        """Call a function of the kernel; returns a value, a list of them, or None."""
        return self._called(*self.calls.find(name, arguments), arguments)

    def _called(self, function: Any, returned: Returned, arguments: Sequence[Number | View]) -> Any:
        result = self.builder.call(function, [value for argument in arguments for value in passed_for(argument)])
        self._pass_on(self.builder.extract_value(result, 0))
        values = [self.builder.extract_value(result, place) for place in range(1, len(result.type.elements))]
        found = [self._part_returned(part, values) for part in returned.parts]
        return found if returned.several else found[0] if found else None

    def _part_returned(self, part: Any, values: list[Any]) -> Any:
        """One of the values that a function returned; takes what it is made of from the list."""
        if isinstance(part, View):
            data = values.pop(0)
            shape = tuple(values.pop(0) if size is None else WORD(size) for size in part.shape)
            strides = part.strides and tuple(values.pop(0) if one is None else WORD(one) for one in part.strides)
            return View(data, part.element, shape, strides=strides)
        return self._from_numba(values.pop(0), part)

    def _pass_on(self, failed: Any) -> None:
        with self.builder.if_then(failed, likely=False):
            self.builder.ret(WORD(INTERRUPTED))

    def _from_numba(self, value: Any, kind: Any) -> Number:
        if isinstance(kind, types.Boolean):
            return Number(value)
        whole: Any = kind
        if isinstance(kind, types.Integer):
            if whole.bitwidth == 64:
                return Number(value)
            return Number((self.builder.sext if whole.signed else self.builder.zext)(value, WORD))
        if isinstance(kind, types.Float):
            return Number(value if kind.bitwidth == 64 else self.builder.fpext(value, DOUBLE))
        raise NotInRowLoop(str(kind))

    def _copy(self, target: Any, source: Any) -> None:
        if not (isinstance(target, View) and isinstance(source, View)) or target.element != source.element:
            raise NotInRowLoop("assign__")
        size = self._size(target)
        cgutils.raw_memcpy(self.builder, self._bytes_at(target), self._bytes_at(source), size, 1)

    # --- memory ------------------------------------------------------------------------------------------------------

    def _memory(self, address: Any, element: Any, shape: tuple[Any, ...]) -> View:
        pointer = self.context.get_data_type(element).as_pointer()
        return View(self.builder.inttoptr(address, pointer), element, shape)

    def _part(self, node: ast.Subscript) -> View:
        """What a subscript refers to; without a shape it is one element."""
        if isinstance(node.value, ast.Attribute) and node.value.attr == "flat":
            view = self._value(node.value.value)
            place = self._whole(self._value(node.slice))
            return View(self.builder.gep(view.data, [place]), view.element, (), view.scope)
        view = self._value(node.value)
        if not isinstance(view, View):
            raise NotInRowLoop(ast.unparse(node))
        if isinstance(node.slice, ast.Constant) and node.slice.value is Ellipsis:
            return view
        if isinstance(node.slice, ast.Slice):  # one element: [i : i + 1]
            assert node.slice.lower is not None
            place = self._whole(self._value(node.slice.lower))
            return replace(view, data=self.builder.gep(view.data, [place], inbounds=True), shape=(WORD(1),))
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        place = WORD(0)
        for axis, index in enumerate(indices):
            row = math.prod(size.constant for size in view.shape[axis + 1 :]) if self._is_fixed(view, axis) else None
            size = WORD(row) if row is not None else self._count(view, axis + 1)
            scaled = product(self.builder, self._whole(self._value(index)), size)
            place = scaled if axis == 0 else self.builder.add(place, scaled)
        data = self.builder.gep(view.data, [place], inbounds=True)
        return replace(view, data=data, shape=view.shape[len(indices) :])

    def _is_fixed(self, view: View, axis: int) -> bool:
        return all(isinstance(size, ir.Constant) for size in view.shape[axis + 1 :])

    def _count(self, view: View, axis: int = 0) -> Any:
        """How many elements there are along the axes from this one on."""
        count = WORD(1)
        for size in view.shape[axis:]:
            count = product(self.builder, count, size)
        return count

    def _size(self, view: View) -> Any:
        return product(self.builder, self._count(view), WORD(view.itemsize))

    def _bytes_at(self, view: View) -> Any:
        return self.builder.bitcast(view.data, BYTE.as_pointer())

    def _read_element(self, view: View) -> Number:
        loaded = self.scopes.mark(self.builder.load(view.data), view.scope)
        if view.element == types.boolean:
            return Number(self.builder.trunc(loaded, FLAG))
        return self._from_numba(loaded, view.element)

    def _write_element(self, view: View, number: Number) -> None:
        kind, value = view.data.type.pointee, number.value
        if view.element == types.boolean:
            value = self.builder.zext(self._truth(number), kind)
        elif isinstance(view.element, types.Float):
            value = self._as(number, DOUBLE)
            value = value if kind == DOUBLE else self.builder.fptrunc(value, kind)
        else:
            value = self._whole(number)
            value = value if kind == WORD else self.builder.trunc(value, kind)
        self.scopes.mark(self.builder.store(value, view.data), view.scope)

    # --- types -------------------------------------------------------------------------------------------------------

    def _whole(self, number: Any) -> Any:
        if not isinstance(number, Number) or number.value.type == DOUBLE:
            raise NotInRowLoop("an int is needed")
        return self._as(number, WORD)

    def _truth(self, number: Any) -> Any:
        if not isinstance(number, Number):
            raise NotInRowLoop("a bool is needed")
        value = number.value
        if value.type == FLAG:
            return value
        if value.type == DOUBLE:
            return self.builder.fcmp_unordered("!=", value, DOUBLE(0.0))
        return self.builder.icmp_signed("!=", value, WORD(0))

    def _alike(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Two numbers in the wider of their types."""
        if not (isinstance(first, Number) and isinstance(second, Number)):
            raise NotInRowLoop("numbers are needed")
        kinds = (first.value.type, second.value.type)
        kind = next(kind for kind in (DOUBLE, WORD, FLAG) if kind in kinds)
        return self._as(first, kind), self._as(second, kind)

    def _as(self, number: Number, kind: Any) -> Any:
        value = number.value
        if value.type == kind:
            return value
        if isinstance(value, ir.Constant):
            return kind(float(value.constant) if kind == DOUBLE else int(value.constant))
        if kind == WORD and value.type == FLAG:
            return self.builder.zext(value, WORD)
        if kind == DOUBLE:
            return (self.builder.uitofp if value.type == FLAG else self.builder.sitofp)(value, DOUBLE)
        if kind == FLAG:
            return self._truth(number)
        raise NotInRowLoop(f"{value.type} as {kind}")


def _loaded(target: ast.expr) -> ast.expr:
    """What is read where this is assigned."""
    return ast.parse(ast.unparse(target), mode="eval").body
