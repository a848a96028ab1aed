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
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.np import arrayobj

from vecenv.kernel.lower.columns import INTERRUPTED
from vecenv.kernel.numba.entry import SYMBOL, write_entry

_target: Any = cpu_target.target_context  # Numba's annotations do not say what it is
_WORD, _BYTE, _FLAG, _DOUBLE = ir.IntType(64), ir.IntType(8), ir.IntType(1), ir.DoubleType()
_COLUMN = re.compile(r"column_([a-z0-9]+)_(\d+)")
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class NotInRowLoop(Exception):
    """The text has something that this compiler does not know."""


@dataclass(frozen=True)
class _Number:
    """A value: a 64-bit int, a float or a bool, as LLVM's type says."""

    value: Any


@dataclass(frozen=True)
class _View:
    """Memory as a contiguous array: of a column, or of one of its rows. Other scopes have other memory."""

    data: Any
    element: Any
    shape: tuple[Any, ...]
    scope: str | None = None

    @property
    def itemsize(self) -> int:
        return 1 if self.element == types.boolean else self.element.bitwidth // 8


def compile_row_loop(
    text: str, names: Mapping[str, Any], inlined: Collection[str], flags: Sequence[str], apart: bool
) -> tuple[Any, str]:
    """Compile the row loop.

    Args:
        text: definitions of functions; `run` is the last.
        names: functions that Numba compiles, by the names that the text calls them by.
        inlined: names of those that become part of the loop, however large they are.
        flags: how floats may be computed, as LLVM calls it.
        apart: whether no two columns share memory.

    Returns:
        A library of Numba's, which is not linked with those that it needs, and the symbol of its entry.

    Raises:
        NotInRowLoop: the text has something that this compiler does not know.
    """
    library = _target.codegen().create_library("vecenv row loop")
    module = library.create_ir_module("vecenv row loop")
    nodes = ast.parse(text).body
    scopes = _Scopes(module, _columns(nodes) if apart else ())
    calls = _KernelCalls(module, library, names, inlined, apart)
    functions: dict[str, Any] = {}
    definitions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    for function in [_Function(node, module, functions, calls, scopes, tuple(flags)) for node in definitions]:
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


class _Scopes:
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


class _KernelCalls:
    """Functions of ours through which the loop calls functions that Numba compiles."""

    def __init__(
        self, module: Any, library: Any, names: Mapping[str, Any], inlined: Collection[str], apart: bool
    ) -> None:
        self._module, self._library, self._names, self._inlined, self._apart = module, library, names, inlined, apart
        self._context = _target
        self._made: dict[Any, tuple[Any, Any]] = {}

    def __contains__(self, name: str) -> bool:
        return hasattr(self._names.get(name), "overloads")

    def find(self, name: str, arguments: Sequence[_Number | _View]) -> tuple[Any, Any]:
        """The function for these arguments, and the type that the kernel's function returns.

        A view is passed as its address and the sizes that are not constant. What is returned is a struct: whether it
        failed, and the values.
        """
        kinds = tuple(map(_numba_type, arguments))
        fixed = tuple(
            tuple(size.constant if isinstance(size, ir.Constant) else None for size in argument.shape)
            if isinstance(argument, _View)
            else None
            for argument in arguments
        )
        key = name, kinds, fixed
        if key not in self._made:
            self._made[key] = self._make(name, kinds, arguments)
        return self._made[key]

    def _make(self, name: str, kinds: tuple[Any, ...], arguments: Sequence[_Number | _View]) -> tuple[Any, Any]:
        dispatcher = self._names[name]
        dispatcher.compile(kinds)
        compiled = dispatcher.overloads[kinds]
        self._library.add_linking_library(compiled.library)
        returned = compiled.signature.return_type
        parts = list(cast(Any, returned)) if isinstance(returned, types.BaseTuple) else [returned]
        values = [self._context.get_value_type(part) for part in parts if not isinstance(part, types.NoneType)]
        passed = [value.type for argument in arguments for value in _passed(argument)]
        signature = ir.FunctionType(ir.LiteralStructType([_FLAG, *values]), passed)
        function = ir.Function(self._module, signature, self._module.get_unique_name(f"vecenv_{name}"))
        function.linkage = "internal"
        if name in self._inlined:
            function.attributes.add("alwaysinline")
        builder, given = ir.IRBuilder(function.append_basic_block()), list(function.args)
        native = [self._native(builder, argument, kind, given) for argument, kind in zip(arguments, kinds, strict=True)]
        callee = self._context.declare_function(self._module, compiled.fndesc)
        status, result = self._context.call_conv.call_function(builder, callee, returned, kinds, native)
        if values:
            found = cgutils.unpack_tuple(builder, result) if isinstance(returned, types.BaseTuple) else [result]
            builder.ret(self._struct(builder, signature.return_type, [status.is_error, *found]))
        else:
            builder.ret(self._struct(builder, signature.return_type, [status.is_error]))
        return function, returned

    def _native(self, builder: Any, argument: _Number | _View, kind: Any, given: list[Any]) -> Any:
        """An argument as Numba has it, made of those that our function is given."""
        value = given.pop(0)
        if isinstance(argument, _Number):
            return value
        if self._apart:
            value.add_attribute("noalias")
        shape = [size if isinstance(size, ir.Constant) else given.pop(0) for size in argument.shape]
        strides, stride = [], _WORD(argument.itemsize)
        for size in reversed(shape):
            strides.insert(0, stride)
            stride = _product(builder, stride, size)
        array = arrayobj.make_array(kind)(self._context, builder)
        item = _WORD(argument.itemsize)
        arrayobj.populate_array(array, data=value, shape=shape, strides=strides, itemsize=item, meminfo=None)
        return array._getvalue()

    def _struct(self, builder: Any, kind: Any, values: Sequence[Any]) -> Any:
        made = ir.Constant(kind, ir.Undefined)
        for number, value in enumerate(values):
            made = builder.insert_value(made, value, number)
        return made


def _passed(argument: _Number | _View) -> list[Any]:
    """What is passed to a function of ours for an argument."""
    if isinstance(argument, _Number):
        return [argument.value]
    return [argument.data, *(size for size in argument.shape if not isinstance(size, ir.Constant))]


def _numba_type(argument: _Number | _View) -> Any:
    if isinstance(argument, _View):
        return types.Array(argument.element, len(argument.shape), "C")
    return {_WORD: types.int64, _FLAG: types.boolean, _DOUBLE: types.float64}[argument.value.type]


def _product(builder: Any, first: Any, second: Any) -> Any:
    if isinstance(first, ir.Constant) and isinstance(second, ir.Constant):
        return _WORD(first.constant * second.constant)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, ir.Constant) and one.constant == 1:
            return other
    return builder.mul(first, second, flags=("nsw",))


class _Function:
    """Writes one function. Its arguments and what it returns are 64-bit ints; `T` is a table of them."""

    def __init__(
        self,
        node: ast.FunctionDef,
        module: Any,
        functions: dict[str, Any],
        calls: _KernelCalls,
        scopes: _Scopes,
        flags: tuple[str, ...],
    ) -> None:
        self.node, self.functions, self.calls, self.scopes, self.flags = node, functions, calls, scopes, flags
        self.context = _target
        arguments = [argument.arg for argument in node.args.args]
        name = module.get_unique_name(f"vecenv_{node.name}")
        self.function = ir.Function(module, ir.FunctionType(_WORD, [_WORD] * len(arguments)), name)
        self.function.linkage = "internal"
        functions[node.name] = self.function
        self.builder: Any = ir.IRBuilder(self.function.append_basic_block())
        self.variables: dict[str, Any] = {}
        """By name: a view, or where a number is kept."""
        for name, value in zip(arguments, self.function.args, strict=True):
            if name == "T":
                self._assign_name(name, self._memory(value, types.int64, (_WORD(1),)))
            else:
                self._assign_name(name, _Number(value))

    def write(self) -> None:
        self._statements(self.node.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(_WORD(0))

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
        if isinstance(value, _View):
            self.variables[name] = replace(value, scope=_scope_of(name))
            return
        if not isinstance(value, _Number):
            raise NotInRowLoop(name)
        if name not in self.variables:
            with self.builder.goto_entry_block():
                self.variables[name] = self.builder.alloca(value.value.type, name=name)
        place = self.variables[name]
        if isinstance(place, _View):
            raise NotInRowLoop(name)
        self.builder.store(self._as(value, place.type.pointee), place)

    def _store(self, target: ast.Subscript, value: Any) -> None:
        view = self._part(target)
        if not isinstance(value, _Number):
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
        start, stop = (_WORD(0), bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else _WORD(1)
        before = self.builder.block
        body, after = self.function.append_basic_block(), self.function.append_basic_block()
        self.builder.cbranch(self.builder.icmp_signed("<", start, stop), body, after)
        self.builder.position_at_end(body)
        index = self.builder.phi(_WORD)
        index.add_incoming(start, before)
        self._assign_name(node.target.id, _Number(index))
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

    def _of_Constant(self, node: ast.Constant) -> _Number:
        kinds = {bool: _FLAG, int: _WORD, float: _DOUBLE}
        if type(node.value) not in kinds:
            raise NotInRowLoop(ast.unparse(node))
        return _Number(kinds[type(node.value)](node.value))

    def _of_Tuple(self, node: ast.Tuple) -> list[Any]:
        return [self._value(element) for element in node.elts]

    def _of_Name(self, node: ast.Name) -> Any:
        if node.id not in self.variables:
            raise NotInRowLoop(node.id)
        place = self.variables[node.id]
        return place if isinstance(place, _View) else _Number(self.builder.load(place))

    def _of_Subscript(self, node: ast.Subscript) -> Any:
        view = self._part(node)
        return view if view.shape else self._read_element(view)

    def _of_Attribute(self, node: ast.Attribute) -> _Number:
        view = self._value(node.value)
        if not isinstance(view, _View) or node.attr != "size":
            raise NotInRowLoop(ast.unparse(node))
        return _Number(self._count(view))

    def _of_IfExp(self, node: ast.IfExp) -> _Number:
        if any(isinstance(part, ast.Call) and self._has_effects(part) for part in ast.walk(node)):
            raise NotInRowLoop(ast.unparse(node))
        test = self._truth(self._value(node.test))
        yes, no = self._alike(self._value(node.body), self._value(node.orelse))
        return _Number(self.builder.select(test, yes, no))

    def _has_effects(self, call: ast.Call) -> bool:
        return not (isinstance(call.func, ast.Name) and (call.func.id == "widen__" or _COLUMN.fullmatch(call.func.id)))

    def _of_UnaryOp(self, node: ast.UnaryOp) -> _Number:
        operand = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            return _Number(self.builder.not_(self._truth(operand)))
        if isinstance(node.op, ast.USub):
            constant: Any = node.operand.value if isinstance(node.operand, ast.Constant) else None
            return _Number(operand.value.type(-constant) if constant else self.builder.neg(self._whole(operand)))
        raise NotInRowLoop(ast.unparse(node))

    def _of_BoolOp(self, node: ast.BoolOp) -> _Number:
        if any(isinstance(part, ast.Call) and self._has_effects(part) for part in ast.walk(node)):
            raise NotInRowLoop(ast.unparse(node))
        found, *others = [self._truth(self._value(value)) for value in node.values]
        for other in others:
            found = (self.builder.and_ if isinstance(node.op, ast.And) else self.builder.or_)(found, other)
        return _Number(found)

    def _of_Compare(self, node: ast.Compare) -> _Number:
        values = [self._value(part) for part in (node.left, *node.comparators)]
        found = None
        for operator, first, second in zip(node.ops, values, values[1:], strict=False):
            if type(operator) not in _COMPARISONS:
                raise NotInRowLoop(ast.unparse(node))
            left, right = self._alike(first, second)
            sign = _COMPARISONS[type(operator)]
            if left.type == _DOUBLE:
                unequal = sign == "!="  # also of what is not a number
                one = (self.builder.fcmp_unordered if unequal else self.builder.fcmp_ordered)(sign, left, right)
            else:
                one = self.builder.icmp_signed(sign, left, right)
            found = one if found is None else self.builder.and_(found, one)
        return _Number(found)

    def _of_BinOp(self, node: ast.BinOp) -> _Number:
        return self._computed(node.op, self._value(node.left), self._value(node.right), node)

    def _computed(self, operator: ast.operator, first: Any, second: Any, node: ast.AST) -> _Number:
        kind = type(operator)
        builder = self.builder
        if kind in (ast.BitAnd, ast.BitOr) and isinstance(first, _Number) and isinstance(second, _Number):
            left, right = self._alike(first, second)
            if left.type != _DOUBLE:
                return _Number((builder.and_ if kind is ast.BitAnd else builder.or_)(left, right))
        if kind in (ast.Add, ast.Sub, ast.Mult):
            left, right = self._alike(first, second)
            if left.type == _FLAG:
                left, right = builder.zext(left, _WORD), builder.zext(right, _WORD)
            if left.type == _DOUBLE:
                method = {ast.Add: builder.fadd, ast.Sub: builder.fsub, ast.Mult: builder.fmul}[kind]
                return _Number(method(left, right, flags=self.flags))
            method = {ast.Add: builder.add, ast.Sub: builder.sub, ast.Mult: builder.mul}[kind]
            return _Number(method(left, right))
        if kind in (ast.FloorDiv, ast.Mod):  # of sizes: not negative, by a positive constant
            left, right = self._whole(first), self._whole(second)
            if isinstance(right, ir.Constant) and right.constant > 0:
                return _Number((builder.udiv if kind is ast.FloorDiv else builder.urem)(left, right))
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
        arguments = [self._value(argument) for argument in node.args]
        if name == "widen__":
            return arguments[0]  # what is read has 64 bits
        if name == "min":
            first, second = map(self._whole, arguments)
            return _Number(self.builder.select(self.builder.icmp_signed("<", second, first), second, first))
        if name == "assign__":
            return self._copy(*arguments)
        if name in self.functions:
            return self._call_own(self.functions[name], arguments)
        if name in self.calls:
            return self._call_kernel(name, arguments)
        raise NotInRowLoop(name)

    def _call_own(self, function: Any, arguments: list[Any]) -> _Number:
        """Call another function of the text."""
        values = [
            self.builder.ptrtoint(argument.data, _WORD) if isinstance(argument, _View) else self._whole(argument)
            for argument in arguments
        ]
        result = self.builder.call(function, values)
        self._pass_on(self.builder.icmp_signed("==", result, _WORD(INTERRUPTED)))
        return _Number(result)

    def _call_kernel(self, name: str, arguments: list[Any]) -> Any:
        """Call a function that Numba compiles for these types; returns a number, a list of them, or None."""
        function, returned = self.calls.find(name, arguments)
        result = self.builder.call(function, [value for argument in arguments for value in _passed(argument)])
        self._pass_on(self.builder.extract_value(result, 0))
        if isinstance(returned, types.NoneType):
            return None
        kinds = list(cast(Any, returned)) if isinstance(returned, types.BaseTuple) else [returned]
        found = [self._from_numba(self.builder.extract_value(result, 1 + k), kind) for k, kind in enumerate(kinds)]
        return found if isinstance(returned, types.BaseTuple) else found[0]

    def _pass_on(self, failed: Any) -> None:
        with self.builder.if_then(failed, likely=False):
            self.builder.ret(_WORD(INTERRUPTED))

    def _from_numba(self, value: Any, kind: Any) -> _Number:
        if isinstance(kind, types.Boolean):
            return _Number(value)
        whole: Any = kind
        if isinstance(kind, types.Integer):
            if whole.bitwidth == 64:
                return _Number(value)
            return _Number((self.builder.sext if whole.signed else self.builder.zext)(value, _WORD))
        if isinstance(kind, types.Float):
            return _Number(value if kind.bitwidth == 64 else self.builder.fpext(value, _DOUBLE))
        raise NotInRowLoop(str(kind))

    def _copy(self, target: Any, source: Any) -> None:
        if not (isinstance(target, _View) and isinstance(source, _View)) or target.element != source.element:
            raise NotInRowLoop("assign__")
        size = self._size(target)
        cgutils.raw_memcpy(self.builder, self._bytes_at(target), self._bytes_at(source), size, 1)

    # --- memory ------------------------------------------------------------------------------------------------------

    def _memory(self, address: Any, element: Any, shape: tuple[Any, ...]) -> _View:
        pointer = self.context.get_data_type(element).as_pointer()
        return _View(self.builder.inttoptr(address, pointer), element, shape)

    def _part(self, node: ast.Subscript) -> _View:
        """What a subscript refers to; without a shape it is one element."""
        if isinstance(node.value, ast.Attribute) and node.value.attr == "flat":
            view = self._value(node.value.value)
            place = self._whole(self._value(node.slice))
            return _View(self.builder.gep(view.data, [place]), view.element, (), view.scope)
        view = self._value(node.value)
        if not isinstance(view, _View):
            raise NotInRowLoop(ast.unparse(node))
        if isinstance(node.slice, ast.Constant) and node.slice.value is Ellipsis:
            return view
        if isinstance(node.slice, ast.Slice):  # one element: [i : i + 1]
            assert node.slice.lower is not None
            place = self._whole(self._value(node.slice.lower))
            return replace(view, data=self.builder.gep(view.data, [place], inbounds=True), shape=(_WORD(1),))
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        place = _WORD(0)
        for axis, index in enumerate(indices):
            row = math.prod(size.constant for size in view.shape[axis + 1 :]) if self._is_fixed(view, axis) else None
            size = _WORD(row) if row is not None else self._count(view, axis + 1)
            scaled = _product(self.builder, self._whole(self._value(index)), size)
            place = scaled if axis == 0 else self.builder.add(place, scaled)
        data = self.builder.gep(view.data, [place], inbounds=True)
        return replace(view, data=data, shape=view.shape[len(indices) :])

    def _is_fixed(self, view: _View, axis: int) -> bool:
        return all(isinstance(size, ir.Constant) for size in view.shape[axis + 1 :])

    def _count(self, view: _View, axis: int = 0) -> Any:
        """How many elements there are along the axes from this one on."""
        count = _WORD(1)
        for size in view.shape[axis:]:
            count = _product(self.builder, count, size)
        return count

    def _size(self, view: _View) -> Any:
        return _product(self.builder, self._count(view), _WORD(view.itemsize))

    def _bytes_at(self, view: _View) -> Any:
        return self.builder.bitcast(view.data, _BYTE.as_pointer())

    def _read_element(self, view: _View) -> _Number:
        loaded = self.scopes.mark(self.builder.load(view.data), view.scope)
        if view.element == types.boolean:
            return _Number(self.builder.trunc(loaded, _FLAG))
        return self._from_numba(loaded, view.element)

    def _write_element(self, view: _View, number: _Number) -> None:
        kind, value = view.data.type.pointee, number.value
        if view.element == types.boolean:
            value = self.builder.zext(self._truth(number), kind)
        elif isinstance(view.element, types.Float):
            value = self._as(number, _DOUBLE)
            value = value if kind == _DOUBLE else self.builder.fptrunc(value, kind)
        else:
            value = self._whole(number)
            value = value if kind == _WORD else self.builder.trunc(value, kind)
        self.scopes.mark(self.builder.store(value, view.data), view.scope)

    # --- types -------------------------------------------------------------------------------------------------------

    def _whole(self, number: Any) -> Any:
        if not isinstance(number, _Number) or number.value.type == _DOUBLE:
            raise NotInRowLoop("an int is needed")
        return self._as(number, _WORD)

    def _truth(self, number: Any) -> Any:
        if not isinstance(number, _Number):
            raise NotInRowLoop("a bool is needed")
        value = number.value
        if value.type == _FLAG:
            return value
        if value.type == _DOUBLE:
            return self.builder.fcmp_unordered("!=", value, _DOUBLE(0.0))
        return self.builder.icmp_signed("!=", value, _WORD(0))

    def _alike(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Two numbers in the wider of their types."""
        if not (isinstance(first, _Number) and isinstance(second, _Number)):
            raise NotInRowLoop("numbers are needed")
        kinds = (first.value.type, second.value.type)
        kind = next(kind for kind in (_DOUBLE, _WORD, _FLAG) if kind in kinds)
        return self._as(first, kind), self._as(second, kind)

    def _as(self, number: _Number, kind: Any) -> Any:
        value = number.value
        if value.type == kind:
            return value
        if isinstance(value, ir.Constant):
            return kind(float(value.constant) if kind == _DOUBLE else int(value.constant))
        if kind == _WORD and value.type == _FLAG:
            return self.builder.zext(value, _WORD)
        if kind == _DOUBLE:
            return (self.builder.uitofp if value.type == _FLAG else self.builder.sitofp)(value, _DOUBLE)
        if kind == _FLAG:
            return self._truth(number)
        raise NotInRowLoop(f"{value.type} as {kind}")


def _loaded(target: ast.expr) -> ast.expr:
    """What is read where this is assigned."""
    return ast.parse(ast.unparse(target), mode="eval").body
