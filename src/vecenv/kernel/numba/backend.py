"""Numba as a backend."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vecenv.errors import KernelError
from vecenv.kernel.lower.columns import Slot
from vecenv.kernel.lower.program import Program, Site
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.numba.driver import Driver, block_of
from vecenv.kernel.numba.early import call_early
from vecenv.kernel.numba.emit import NOT_IN_CACHED_CODE, emit

if TYPE_CHECKING:
    from vecenv.kernel.backend import Precision

_COMPILER = (
    *("array_writer.py", "checks.py", "compile.py", "distributions.py", "draws.py", "entry.py", "expression_writer.py"),
    *(
        "interrupts.py",
        "kernel_functions.py",
        "math.py",
        "naturals.py",
        "near.py",
        "one_module.py",
        "pcg64.py",
        "row_loop.py",
    ),
)
"""Files here that native code is made from, besides the text."""


class NumbaBackend:
    """Text for Numba, which compiles it once; later processes load the code without Numba."""

    name = "numba"

    def refuses(self, program: Program) -> KernelError | None:
        for function in program.functions:
            for statement in function.body:
                for node in ast.walk(statement):
                    if isinstance(node, Ref) and node.kind is Kind.MATH and node.name in NOT_IN_CACHED_CODE:
                        rule = f"math.{node.name} needs Numba when it runs; {NOT_IN_CACHED_CODE[node.name]}"
                        return program.error(function.source, node, rule)
        return None

    def emit(self, program: Program) -> str:
        emitted = call_early(emit(program), "exact")
        return f"{emitted.text}\n\n\n{Driver(emitted).text()}"

    def load(self, program: Program, precision: Precision, before: Callable[[], None]) -> NumbaCode:
        from vecenv.kernel.numba.entry import python_function
        from vecenv.kernel.numba.load import load_or_compile  # late: without Numba kernels are checked all the same

        kernel, emitted = program.kernel, call_early(emit(program), precision)
        driver = Driver(emitted)
        text = driver.text()

        def build() -> tuple[bytes, str]:
            before()
            from vecenv.kernel.numba.compile import compile_program

            return compile_program(emitted, text, precision)

        sources = (*(Path(__file__).with_name(name) for name in _COMPILER), *_files_of_twins(program))
        parts = (emitted.text, text, precision)
        function = load_or_compile(parts, sources, f"{kernel.id} ({precision})", build, python_function)
        return NumbaCode(function, driver.slots, block_of(kernel), program.sites)


class NumbaCode:
    """Native code that Numba made: a `NativeCode`."""

    def __init__(self, entry: Callable[[int], int], slots: list[Slot], block: int, sites: Sequence[Site]) -> None:
        self._entry, self.slots, self.block, self.sites = entry, slots, block, sites

    def caller(self) -> Callable[[int], int]:
        return self._entry  # it has no memory of its own: all threads may call it


def _files_of_twins(program: Program) -> list[Path]:
    files = []
    for module in sorted(set(program.twins.values())):
        found = importlib.util.find_spec(module)
        assert found is not None
        assert found.origin is not None
        files.append(Path(found.origin))
    return files
