"""Backends: what turns a resolved program into native code. They are loaded late: `import vecenv` loads no compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vecenv._batch.layout import Layout
from vecenv._util.forks import FORK_LOCK
from vecenv._util.garbage import no_garbage_collection
from vecenv.errors import KernelError, UnsupportedError
from vecenv.kernel.lower.columns import Slot
from vecenv.kernel.lower.program import Program, Site
from vecenv.kernel.lower.resolve import resolve

if TYPE_CHECKING:
    from vecenv.kernel.language.define import Kernel

Precision = Literal["exact", "fast"]


class NativeCode(Protocol):
    """The row loop of a kernel as native code.

    Attributes:
        slots: the columns that it works on, in the order of its table of addresses (`lower/columns.py`).
        block: rows that it runs together; threads take multiples of it.
        sites: where it checks something, by the numbers in the column FAULT from 1 on; without checks there is none.
    """

    slots: list[Slot]
    block: int
    sites: Sequence[Site]

    def caller(self) -> Callable[[int], int]:
        """A function of the address of orders (`lower/columns.py`) that runs rows and returns how many episodes ended.

        It adds UNFIT (`lower/transition.py`) for each reward that is not finite.
        It returns -1 if the actions were to be checked and one is not in its space; nothing was run then. With a policy
        it returns -1 - t if the policy chose such an action at step t. If a loop was interrupted it returns
        INTERRUPTED, or raises KeyboardInterrupt. Every thread needs its own caller. The GIL is released while it runs.
        """
        ...


class Backend(Protocol):
    """Turns resolved programs into native code."""

    name: str

    def refuses(self, program: Program) -> KernelError | None:
        """Why this backend cannot run a program, with function and line; None if it can. Nothing is compiled."""
        ...

    def emit(self, program: Program) -> str:
        """The text that is compiled: functions of the program and the row loop around them."""
        ...

    def load(self, program: Program, precision: Precision, before: Callable[[], None]) -> NativeCode:
        """The native code of a program, from memory, from the disk or from the compiler.

        Args:
            program: one that the backend does not refuse.
            precision: "exact" or "fast".
            before: called before the compiler is, and only then.

        Raises:
            KernelError: the compiler refuses the program.
        """
        ...


def find_backend() -> Backend:
    """The backend that runs kernels on the host. Devices have another, `cpp/backend.py`."""
    with FORK_LOCK:
        from vecenv.kernel.numba.backend import NumbaBackend

    return NumbaBackend()


def load_kernel(
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    precision: Precision,
    policy: Callable[..., Any] | None = None,
    before: Callable[[], None] = lambda: None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    check: bool = False,
    backend: Backend | None = None,
) -> NativeCode:
    """The native code of a kernel; arguments are those of `resolve` and `Backend.load`. Raises KernelError."""
    with no_garbage_collection():
        backend, program = _resolved(kernel, observation, action, policy, shapes, check, backend)
        return backend.load(program, precision, before)


def check_native(
    kernel: Kernel, observation: Layout, action: Layout, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Raise KernelError for what native code of a kernel would refuse; nothing is compiled."""
    _resolved(kernel, observation, action, None, shapes, check=False)


def native_text(
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    check: bool = False,
) -> str:
    """The text that native code of a kernel is compiled from. Raises UnsupportedError where there is no native code."""
    from vecenv.kernel.numba.trial import native_code_fails

    if (failure := native_code_fails()) is not None:
        raise UnsupportedError(failure)
    backend, program = _resolved(kernel, observation, action, None, shapes, check)
    return backend.emit(program)


def _resolved(
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    policy: Callable[..., Any] | None,
    shapes: Mapping[str, tuple[int, ...]] | None,
    check: bool,
    backend: Backend | None = None,
) -> tuple[Backend, Program]:
    backend, program = backend or find_backend(), resolve(kernel, observation, action, policy, shapes, check)
    refused = backend.refuses(program)
    if refused is not None:
        raise refused
    return backend, program
