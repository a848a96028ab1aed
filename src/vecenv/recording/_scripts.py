"""What a script defines, without what it does."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def load_script(file: str, name: str) -> ModuleType:
    """A module with what a script defines.

    The script is run up to where `name` is defined; of the rest only functions, classes and imports are, so that a
    training that follows does not begin. What is in `if __name__ == "__main__"` is not run at all.

    Args:
        file: of the script.
        name: what is wanted of it.
    """
    path = Path(file)
    tree = ast.parse(path.read_text(), file)
    module = ModuleType(path.stem)
    module.__file__ = file
    sys.modules.setdefault(path.stem, module)  # the source of a class is looked up there
    sys.path.insert(0, str(path.parent))  # as it was for the script
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    for node in tree.body:
        if not hasattr(module, name) or isinstance(node, _DEFINITIONS):
            parts = [node] if node in futures else [*futures, node]
            exec(compile(ast.Module(parts, type_ignores=[]), file, "exec"), module.__dict__)
    return module
