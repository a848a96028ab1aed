"""Resolving: from the functions of a kernel to a program in which every name is known. Independent of any backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from vecenv._batch.layout import Layout
from vecenv.errors import KernelError
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.rules import Rules
from vecenv.kernel.language.scope import Roles, roles_of
from vecenv.kernel.language.source import FunctionSource, read_source
from vecenv.kernel.lower.arrays import lower_arrays
from vecenv.kernel.lower.body import Body
from vecenv.kernel.lower.checks import add_checks
from vecenv.kernel.lower.program import Program

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel

STREAM = "rng"
"""The parameter of a policy that is its random stream, by its name."""


def resolve(
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    policy: Callable[..., Any] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    check: bool = False,
) -> Program:
    """The program of a kernel for these layouts of its spaces. Raises a KernelError that names function and line.

    A policy is `policy(obs)` that returns an action, or `policy(obs, action)` that writes into an array; a parameter
    `rng` of it is a random stream. `shapes` are those of the parameters that are arrays, where they are not those of
    their defaults. `check` adds the checks of `checks.py`.
    """
    assert kernel.names_checked
    return _resolved(kernel, observation, action, policy, shapes or {}, Found(), check)


def find_mistakes(kernel: Kernel, observation: Layout, action: Layout, found: Found) -> None:
    """Add what can be found out beside the mistakes that are known: their lines are left out."""
    try:
        _resolved(kernel, observation, action, None, {}, found)
    except KernelError as error:
        found.add(error)
    except Exception:  # it relies on rules that may be broken here; what was found before is reported
        return


def _resolved(
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    policy: Callable[..., Any] | None,
    shapes: Mapping[str, tuple[int, ...]],
    found: Found,
    check: bool = False,
) -> Program:
    resolver = _Resolver(Program(kernel, {"obs": observation, "action": action}, found=found, checked=check))
    for method, source in kernel.methods.items():
        with found.noting():
            resolver.add(source, roles_of(method, source), method, method)
    if policy is not None:
        with found.noting():
            resolver.add_policy(policy)
    known = {**{name: field.shape for name, field in kernel.params.items()}, **shapes}
    lowered = lower_arrays(resolver.program, known)
    lowered.shapes = known
    return add_checks(lowered, known) if check else lowered


class _Resolver:
    """Adds functions to a program, and the helpers that they call before them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._helpers: dict[tuple[Any, ...], str] = {}
        self._guarded: dict[str, bool] = {}

    def add(self, source: FunctionSource, roles: Roles, name: str, method: str | None) -> None:
        function = Body(self.program, self.helper, source, roles, method).resolved(name)
        self.program.functions.append(function)
        self._guarded[name] = function.guarded
        if method is not None:
            self.program.methods[method] = function

    def add_policy(self, policy: Callable[..., Any]) -> None:
        kernel = self.program.kernel
        try:
            source = read_source(policy)
        except (OSError, TypeError, SyntaxError):
            rule = f"the source of {getattr(policy, '__name__', policy)!r} cannot be read; define it by `def` in a file"
            raise KernelError(rule, kernel.name) from None
        given = [name for name in source.parameters if name != STREAM]
        if len(given) not in (1, 2):
            rule = (
                "a policy is policy(obs), or policy(obs, action) to write into action; with rng as one more, it draws"
            )
            raise self.program.error(source, source.node, rule)
        roles = dict(zip(given, ("obs", "action"), strict=False)) | {
            name: "rng" for name in source.parameters if name == STREAM
        }
        leaves = {role: layout.leaves for role, layout in self.program.layouts.items()}
        rules = Rules(kernel.name, source, roles, {}, {}, leaves, method="policy")
        found = Found()
        rules.check(found)
        rules.check_names(found)
        found.raise_all()
        self.add(source, roles, "policy", "policy")

    def helper(self, function: FunctionType, roles: tuple[str | None, ...]) -> tuple[str, bool]:
        """The name of a helper for these roles of its arguments, and whether it is guarded.

        A helper that is still being resolved, because it calls itself, counts as guarded.
        """
        key = (function, roles)
        if key not in self._helpers:
            source = read_source(function)
            named = {name: role for name, role in zip(source.parameters, roles, strict=False) if role is not None}
            self._helpers[key] = name = f"helper{len(self._helpers)}__{function.__name__}"
            self.add(source, named, name, None)
        name = self._helpers[key]
        return name, self._guarded.get(name, True)
