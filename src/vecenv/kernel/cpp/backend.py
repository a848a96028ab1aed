"""C++ as a backend, on Warp's CPU device: a drop-in for Numba's, over the same columns in the same memory."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv._batch.layout import Layout
from vecenv.errors import KernelError
from vecenv.kernel.backend import load_kernel
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.host import INTERRUPTS, Launcher, find_device, kernel_of, once, raise_if_stopped
from vecenv.kernel.cpp.rows import NO_ROW, no_notes, refused
from vecenv.kernel.language.digest import digest_of
from vecenv.kernel.lower.columns import ORDERS, Slot, slots_of
from vecenv.kernel.lower.program import Program, Site
from vecenv.kernel.numba import cache

if TYPE_CHECKING:
    from vecenv.kernel.backend import Precision
    from vecenv.kernel.language.define import Kernel

CHUNK = 1024
"""Rows that a thread of the CPU device runs: it has one thread, and addresses are looked up once per chunk."""


class CppBackend:
    """Text for Warp, which compiles it once; later processes load the code.

    Args:
        device: "cpu", "cuda" or "cuda:N".
    """

    name = "cpp"

    def __init__(self, device: str = "cpu") -> None:
        self._device = device

    def refuses(self, program: Program) -> KernelError | None:
        return refused(program)

    def emit(self, program: Program) -> str:
        return source(program, "exact")[0]

    def load(self, program: Program, precision: Precision, before: Callable[[], None]) -> CppCode:
        text, slots = source(program, precision)
        return self.load_text(program.kernel.id, text, slots, before)

    def load_text(self, name: str, text: str, slots: list[Slot], before: Callable[[], None]) -> CppCode:
        """The native code of a text that was written before; other arguments are those of `load`."""
        device = find_device(self._device)
        with once(text, before):
            return CppCode(name, text, slots, device)


def load_on_device(
    device: str,
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    precision: Precision,
    policy: Callable[..., Any] | None,
    before: Callable[[], None],
    shapes: Mapping[str, tuple[int, ...]],
) -> CppCode:
    """The native code of a kernel for a device; arguments are those of `load_kernel`. Raises KernelError.

    Lowering a kernel to C++ takes longer than loading its code. So the text is kept in the cache directory by a hash of
    all that it is made from, and the code by a hash of the text. Policies are lowered each time.
    """

    def find_key() -> str | None:
        return digest_of(kernel, (observation, action), shapes, precision, _TEXT) if policy is None else None

    backend, key = CppBackend(device), find_key()
    known = None if key is None else cache.find(key)
    if known is not None and known[1] == _TEXT:
        slots = slots_of(kernel, observation, action)
        return backend.load_text(kernel.id, known[0].decode(), slots, before)
    code = load_kernel(kernel, observation, action, precision, policy, before, shapes, backend=backend)
    assert isinstance(code, CppCode)
    if key is not None and key == find_key():  # nothing has changed meanwhile, in another thread
        with contextlib.suppress(OSError):  # without a cache the next process lowers it again
            cache.store(key, code.text.encode(), _TEXT)
    return code


_TEXT = "C++"
"""What a file of the cache says that holds a text."""


class CppCode:
    """Native code on a device. On the CPU it is a `NativeCode`, whose callers work on columns in the host's memory.

    Attributes:
        text: what it was compiled from.
        slots, block, sites: as in `NativeCode`.
        device: Warp's.
    """

    block = CHUNK
    sites: Sequence[Site] = ()

    def __init__(self, name: str, text: str, slots: list[Slot], device: Any) -> None:
        self.text, self.slots, self.device = text, slots, device
        self._kernel = kernel_of(name, text)
        self.launcher()  # compiles

    def launcher(self) -> Launcher:
        """What launches it, with the words of `host.WORDS`."""
        return Launcher(self._kernel, self.device)

    def caller(self) -> Callable[[int], int]:
        unnoted = np.array(no_notes(INTERRUPTS), np.int64)
        launch, notes = self.launcher(), unnoted.copy()
        notes_at = notes.ctypes.data
        orders_type = ctypes.c_int64 * len(ORDERS)

        def call(orders: int) -> int:
            table, rows, start, stop, alive, over, steps, check = orders_type.from_address(orders)
            notes[:] = unnoted
            words = (table, rows, start, stop, alive, over, steps, check, CHUNK, notes_at, 0)
            launch(-(-(stop - start) // CHUNK), words)
            raise_if_stopped(int(notes[4]), NO_ROW)
            return int(notes[0]) if notes[1] == NO_ROW else -1 - int(notes[3])

        return call
