"""Which statements of a kernel have run in Python."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from vecenv.kernel.language.agents import members
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.source import FunctionSource, read_helpers, read_source

AGENTS = members.__code__.co_filename
"""Where the methods of kernels with agents are written that are not the user's."""


class Lines:
    """Watches the methods of a kernel and the functions that they call."""

    def __init__(self, kernel: Kernel) -> None:
        called: set[Any] = set()
        for source in kernel.methods.values():
            read_helpers(source, called)
        sources = [source for source in (*kernel.methods.values(), *_sources(called)) if source.file != AGENTS]
        self._sources = {code: source for source in sources if (code := _code(source)) is not None}
        self._left = {(code, line) for code in self._sources for _, _, line in code.co_lines() if line is not None}
        self._of_code = set(self._left)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the lines that run inside; nothing is noted while a debugger or another tool watches."""
        if sys.gettrace() is not None or not self._left:
            yield
            return
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code not in self._sources:
            return None
        self._left.discard((frame.f_code, frame.f_lineno))
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._left.discard((frame.f_code, frame.f_lineno))
        return self._line

    def missed(self) -> tuple[str, ...]:
        """Statements that never ran, as "file:line" or "file:first-last", by file and line."""
        found: dict[str, set[int]] = {}
        for code, source in self._sources.items():
            for statement in ast.walk(source.node):
                if (
                    isinstance(statement, ast.stmt)
                    and statement is not source.node
                    and self._is_missed(code, statement)
                ):
                    found.setdefault(source.file, set()).add(statement.lineno)
        return tuple(f"{file}:{part}" for file in sorted(found) for part in _ranges(sorted(found[file])))

    def _is_missed(self, code: CodeType, statement: ast.stmt) -> bool:
        """Whether a statement has code and none of it ran. For a statement with a body, only its head counts."""
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
        places = {(code, line) for line in range(statement.lineno, max(last, statement.lineno) + 1)} & self._of_code
        return bool(places) and places <= self._left


def _sources(functions: set[Any]) -> Iterator[FunctionSource]:
    for function in functions:
        if (function.__module__ or "").partition(".")[0] not in ("numpy", "math", "vecenv"):
            try:
                yield read_source(function)
            except (OSError, TypeError, SyntaxError):
                continue


def _code(source: FunctionSource) -> CodeType | None:
    return source.function.__code__ if isinstance(source.function, FunctionType) else None


def _ranges(lines: list[int]) -> Iterator[str]:
    """Lines that follow each other as one part."""
    first = last = lines[0]
    for line in [*lines[1:], -1]:
        if line == last + 1:
            last = line
            continue
        yield str(first) if first == last else f"{first}-{last}"
        first = last = line


def shortened(place: str) -> str:
    """A place with the path of its file as seen from the working directory, if it is inside."""
    file, _, lines = place.rpartition(":")
    try:
        return f"{Path(file).relative_to(Path.cwd())}:{lines}"
    except ValueError:
        return place
