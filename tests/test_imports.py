"""Imports flow one way: packages are layers, and no modules import each other in a cycle."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import vecenv

ROOT = Path(vecenv.__file__).parent
LAYERS = (
    {"errors"},
    {"_util"},
    {"_batch"},
    {"kernel"},
    {"envs", "mujoco", "atari"},
    {"engines"},
    {"_front"},
    {"agents"},
    {"recording", "_make"},
)
"""From below. A package imports packages of lower layers and itself, and replaying (in `recording`) makes envs.
Packages that are not named here are above these."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}


def _modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("vecenv", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def _imports(name: str, tree: ast.Module, known: dict[str, ast.Module]) -> Iterator[str]:
    """What a module imports of this package, inside functions too, but not for types alone."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and any(getattr(part, "id", "") == "TYPE_CHECKING" for part in ast.walk(node.test))
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@functools.cache
def _graph() -> dict[str, set[str]]:
    known = _modules()
    return {name: {to for to in _imports(name, tree, known) if to in known} - {name} for name, tree in known.items()}


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of more than one node that reach each other (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        stack.append(node)
        for to in graph.get(node, ()):
            if to not in order:
                visit(to)
            if to in stack:
                lowest[node] = min(lowest[node], lowest[to])
        if lowest[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def test_no_modules_import_each_other_in_a_cycle() -> None:
    assert _cycles(_graph()) == []


def test_a_package_imports_only_packages_of_lower_layers() -> None:
    wrong = [
        f"{module} -> {to}"
        for module, imported in _graph().items()
        for to in imported
        if (source := _package(module)) != (target := _package(to))
        and source in LEVEL
        and LEVEL.get(target, len(LAYERS)) >= LEVEL[source]
        and not (source == "recording" and target == "_make")
    ]
    assert sorted(wrong) == []


def test_no_packages_import_each_other_in_a_cycle() -> None:
    packages: dict[str, set[str]] = {}
    for module, imported in _graph().items():
        if module != "vecenv":  # it imports everything, and nothing below may import it
            packages.setdefault(_package(module), set()).update(_package(to) for to in imported)
    assert _cycles(packages) == []
    above = [module for module, imported in _graph().items() if "vecenv" in imported and _package(module) in LEVEL]
    assert above == []


def test_the_walk_finds_imports_in_functions_and_leaves_out_those_for_types() -> None:
    text = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from vecenv._make.make import make
else:
    import vecenv._batch.batch
def late():
    from vecenv.engines import registry, Engine
"""
    known = _modules()
    found = set(_imports("example", ast.parse(text), known)) & set(known)
    assert found == {"vecenv._batch.batch", "vecenv.engines.registry", "vecenv.engines"}


def test_a_cycle_is_found() -> None:
    assert _cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == [["a", "b", "c"]]
