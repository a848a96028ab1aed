"""Import what a script defines, without running the rest of it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Script:
    """The definitions of the script `file`, as a module."""

    def __init__(self, file: str) -> None:
        path = Path(file)
        self._file = file
        self._left = ast.parse(path.read_text(encoding="utf-8"), file).body
        self._futures = [one for one in self._left if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
        self._module = ModuleType(path.stem)
        self._module.__file__ = file
        sys.modules.setdefault(path.stem, self._module)  # the source of a class is looked up there
        sys.path.insert(0, str(path.parent))  # as it was for the script

    def defining(self, name: str) -> ModuleType:
        """Run the script until it has defined `name`, and return the module.

        Of the statements after that, only imports and definitions of functions, classes and constants are run, so that
        a training that follows does not start. Code in `if __name__ == "__main__"` is not run. Later calls for other
        names do not run any statement twice.
        """
        nodes, self._left = self._left, []
        for node in nodes:
            if hasattr(self._module, name) and not _defines(node):
                self._left.append(node)
                continue
            parts = [node] if node in self._futures else [*self._futures, node]
            exec(compile(ast.Module(parts, type_ignores=[]), self._file, "exec"), self._module.__dict__)
        return self._module


def _defines(node: ast.stmt) -> bool:
    """Whether a statement is an import, or defines a function, a class or a constant."""
    if isinstance(node, ast.Assign):
        names = [name for target in node.targets for name in getattr(target, "elts", [target])]
    elif isinstance(node, ast.AnnAssign):
        names = [node.target]
    else:
        return isinstance(node, _DEFINITIONS)
    return all(isinstance(name, ast.Name) for name in names) and _is_literal(node.value)


def _is_literal(value: ast.expr | None) -> bool:
    if value is None:
        return False
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError):
        return False
    return True
