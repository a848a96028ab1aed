"""One LLVM module per kernel, optimised once. Needs Numba.

Numba makes a library of every function: it optimises it, compiles it to machine code, and copies it into each library
that calls it, where it is optimised again. A kernel needs only the machine code of its outermost function. So its parts
are left as they are, and are linked and optimised together at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from llvmlite import binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys

_target: Any = cpu_target.target_context  # Numba's annotations do not say what it is


@contextlib.contextmanager
def parts_of_one_module() -> Iterator[None]:
    """What Numba compiles inside is a part of one module, see `object_code`. Other threads cannot compile meanwhile."""
    codegen = _target.codegen()
    with global_compiler_lock:
        codegen._library_class, codegen.set_env = _Part, _remember_environment
        try:
            yield
        finally:
            del codegen._library_class, codegen.set_env  # those of its class are there again


def object_code(outermost: Any, symbol: str) -> bytes:
    """The object file of a function, a part, and of all that it calls."""
    codegen, module, linked = outermost._codegen, outermost._final_module.clone(), {outermost}
    waiting = list(outermost._linking_libraries)
    while waiting:
        library = waiting.pop()
        if library not in linked and library is not rtsys.library:
            linked.add(library)
            module.link_in(library._final_module, preserve=True)
            waiting += library._linking_libraries
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = llvm.Linkage.internal
    module.data_layout = codegen._data_layout
    manager, builder = codegen._module_pass_manager()
    manager.run(module, builder)
    module.verify()
    return codegen._tm.emit_object(module)


_environments: dict[str, Any] = {}
"""Of parts, by their names."""


def _remember_environment(name: str, environment: Any) -> None:
    _environments[name] = environment
    codegen = _target.codegen()
    if codegen._engine.is_symbol_defined(name):  # the part has an entry for Python
        _set_environment(codegen, name, environment)


def _set_environment(codegen: Any, name: str, environment: Any) -> None:
    """As Numba does: the method of the class, not of `parts_of_one_module`."""
    type(codegen).set_env(codegen, name, environment)


class _Part(JITCodeLibrary):
    """A library that is compiled by itself only if somebody else than its kernel needs it."""

    _alone = False

    def _optimize_functions(self, ll_module: Any) -> None:
        if self._alone:
            super()._optimize_functions(ll_module)

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """A function that has an entry for Python may be called from there."""
        if all(function.name != name or function.is_declaration for function in self._final_module.functions):
            return 0
        self._compile_alone()
        return super().get_pointer_to_function(name)

    def _get_module_for_linking(self) -> Any:
        self._compile_alone()
        return super()._get_module_for_linking()

    def _compile_alone(self) -> None:
        """Do what Numba does for a library that is no part."""
        if self._alone:
            return
        self._alone, self._finalized = True, False
        super()._optimize_functions(self._final_module)
        super().finalize()
        for variable in self._final_module.global_variables:
            if variable.name in _environments:
                _set_environment(self._codegen, variable.name, _environments[variable.name])
