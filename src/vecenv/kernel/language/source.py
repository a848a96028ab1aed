"""The source of a function: its syntax tree with true line numbers, and what the names in it mean."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import textwrap
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

IMPORTED = time.time()
"""When the kernel language was imported."""
MISSING = object()
"""What `FunctionSource.lookup` answers for a name that does not exist."""


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """One function as text.

    Attributes:
        function: the function itself.
        node: its definition; line numbers are those of the file.
        file: where it is written.
        parameters: names of its parameters.
        locals: every name that is assigned in it, parameters included.
        text: what was parsed.
        outside: names and chains of attributes in it, but for type hints, that begin with a name that is not local, in
            their parts.
    """

    function: Callable[..., Any]
    node: ast.FunctionDef
    file: str
    parameters: tuple[str, ...]
    locals: frozenset[str]
    text: str
    outside: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def is_plain(self) -> bool:
        """Whether its parameters can all be given by position: no *, ** or /."""
        arguments = self.node.args
        return not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs)

    def given(self, call: ast.Call) -> dict[str, ast.expr]:
        """The arguments of a call of this function by the names of its parameters; those left out are missing.

        Raises TypeError, with a text for the user, if they do not fit.
        """
        shown = f"{self.name}({', '.join(self.parameters)})"
        given = dict(zip(self.parameters, call.args, strict=False))
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg not in self.parameters:
                raise TypeError(f"{shown} is given {'**' if keyword.arg is None else repr(keyword.arg)}")
            if keyword.arg in given:
                raise TypeError(f"{shown} is given {keyword.arg!r} twice")
            given[keyword.arg] = keyword.value
        needed = self.parameters[: len(self.parameters) - len(self.node.args.defaults)]
        count = len(call.args) + len(call.keywords)
        if len(call.args) > len(self.parameters) or any(name not in given for name in needed):
            raise TypeError(f"{shown} is given {count} argument{'s' * (count != 1)}")
        return given

    def lookup(self, name: str) -> Any:
        """The value of a name that is not local, or MISSING."""
        code = self.function.__code__
        if name in code.co_freevars:
            cell = (self.function.__closure__ or ())[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING
        found = self.function.__globals__.get(name, MISSING)
        return getattr(builtins, name, MISSING) if found is MISSING else found

    def evaluate(self, node: ast.expr) -> Any:
        """The value of a name or a chain of attributes that starts outside the function, or MISSING."""
        if isinstance(node, ast.Name):
            return MISSING if node.id in self.locals else self.lookup(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.evaluate(node.value)
            if isinstance(owner, (ModuleType, type)):
                return getattr(owner, node.attr, MISSING)
        return MISSING

    def follow(self, chain: tuple[str, ...]) -> Any:
        """The value of one of `outside`, as `evaluate` finds it."""
        value = self.lookup(chain[0])
        for attribute in chain[1:]:
            if not isinstance(value, (ModuleType, type)):
                return MISSING
            value = getattr(value, attribute, MISSING)
        return value


_read: weakref.WeakKeyDictionary[Callable[..., Any], FunctionSource] = weakref.WeakKeyDictionary()
"""What was read, so that a file that is edited later does not change what a function that was imported before is."""


def read_source(function: Callable[..., Any]) -> FunctionSource:
    """Parse the source of a function, once. Raises OSError if there is none, as for code typed at Python's prompt."""
    if function not in _read:
        _read[function] = _parse(function)
    return _read[function]


def share_source(function: Callable[..., Any], source: FunctionSource) -> None:
    """Note that a function was made by the same `def` as another, whose source is known."""
    _read[function] = replace(source, function=function)


def remember(function: Callable[..., Any], text: str, file: str | None = None) -> None:
    """Note the source of a function that was made from text, by code in this file."""
    _read[function] = _source(function, ast.parse(text), file or f"<{function.__name__}>", text)


def read_helpers(source: FunctionSource, seen: set[Any] | None = None) -> None:
    """Read the functions that a function calls, as far as they are there already, and those that they call."""
    seen = set() if seen is None else seen
    for node in ast.walk(source.node):
        callee = source.evaluate(node.func) if isinstance(node, ast.Call) else None
        if isinstance(callee, FunctionType) and callee not in seen:
            seen.add(callee)
            with contextlib.suppress(OSError, TypeError, SyntaxError):  # it is an error when it is needed
                read_helpers(read_source(callee), seen)


def _parse(function: Callable[..., Any]) -> FunctionSource:
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    try:
        lines, first = _definition(function)
        tree = _parsed(lines, first)
    except SyntaxError:  # the end that was found is in the middle of a string or of brackets
        lines, first = inspect.getsourcelines(function)
        tree = _parsed(lines, first)
    return _source(function, tree, file, "".join(lines))


def _parsed(lines: Sequence[str], first: int) -> ast.Module:
    """The tree of lines of a file, of which the first has this number."""
    return ast.parse("\n" * (first - 1) + textwrap.dedent("".join(lines)))


def _definition(function: Callable[..., Any]) -> tuple[list[str], int]:
    """The lines of a definition and the number of the first, if the next line that is not indented ends it.

    `inspect.getsourcelines` reads all tokens to find the end, which takes longer than anything else that is done when
    a compiled kernel is loaded. What is found here is the same, or it cannot be parsed.
    """
    lines, start = inspect.findsource(inspect.unwrap(function))
    indent, begun, stop = _indent(lines[start]), False, start
    while stop < len(lines):
        text = lines[stop].strip()
        if begun and text and not text.startswith("#") and _indent(lines[stop]) <= indent:
            break
        begun = begun or text.startswith(("def ", "async def "))
        stop += 1
    while not lines[stop - 1].strip() or lines[stop - 1].strip().startswith("#"):
        stop -= 1
    return lines[start:stop], start + 1


def _indent(line: str) -> int:
    line = line.expandtabs()
    return len(line) - len(line.lstrip())


def _source(function: Callable[..., Any], tree: ast.Module, file: str, text: str) -> FunctionSource:
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):  # a lambda
        raise OSError("not a def")
    parameters = tuple(argument.arg for argument in node.args.args)
    nodes = list(ast.walk(node))
    names = [name for name in nodes if isinstance(name, (ast.Name, ast.Attribute))]
    assigned = (name.id for name in names if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
    local, hints = frozenset((*parameters, *assigned)), _hints(nodes)
    chains = dict.fromkeys(filter(None, (_chain(name) for name in names if id(name) not in hints)))
    outside = tuple(chain for chain in chains if chain[0] not in local)
    return FunctionSource(function, node, file, parameters, local, text, outside)


def _hints(nodes: Sequence[ast.AST]) -> set[int]:
    """Identities of all nodes in type hints, which are never looked at."""
    hints = [node.annotation for node in nodes if isinstance(node, (ast.arg, ast.AnnAssign))]
    hints += [node.returns for node in nodes if isinstance(node, ast.FunctionDef)]
    return {id(part) for hint in hints if hint is not None for part in ast.walk(hint)}


def _chain(node: ast.expr) -> tuple[str, ...] | None:
    """`a.b.c` as its names; None for attributes of something else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


def later_names(source: FunctionSource) -> frozenset[str]:
    """Names that the module of a function binds and that do not exist yet: Python may be in the middle of the file."""
    try:
        tree = ast.parse(Path(source.file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # a notebook, or a file that has changed
        return frozenset()
    bound: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        else:
            names = (name for name in ast.walk(node) if isinstance(name, ast.Name))
            bound.update(name.id for name in names if isinstance(name.ctx, ast.Store))
    return frozenset(bound - set(source.function.__globals__))  # type: ignore[attr-defined]  # a function has them


def returned_values(source: FunctionSource, call: ast.Call, depth: int = 8) -> int | None:
    """How many values a call of a helper returns, None if that is not the same on every path or not known."""
    callee = source.evaluate(call.func)
    if not isinstance(callee, FunctionType) or not depth:
        return None
    try:
        helper = read_source(callee)
    except (OSError, TypeError, SyntaxError):
        return None
    counts: set[int | None] = set()
    for node in ast.walk(helper.node):
        if isinstance(node, ast.Return):
            its = node.value
            known = len(its.elts) if isinstance(its, ast.Tuple) else None
            counts.add(returned_values(helper, its, depth - 1) if isinstance(its, ast.Call) else known)
    return counts.pop() if len(counts) == 1 else None


def is_constant_dict(value: Any) -> bool:
    """Whether a dict can be asked in native code: ints or strings as keys, constants as values."""
    keys = all(isinstance(key, (int, str)) for key in value)
    return (
        isinstance(value, dict)
        and bool(value)
        and keys
        and all(is_constant(part) or (isinstance(part, dict) and is_constant_dict(part)) for part in value.values())
    )


def is_constant(value: Any) -> bool:
    """Whether native code can hold the value: a number, an array of numbers, or a tuple or list of constants."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, (tuple, list)):
        return all(map(is_constant, value))
    return isinstance(value, (bool, int, float, np.number, np.bool_))
