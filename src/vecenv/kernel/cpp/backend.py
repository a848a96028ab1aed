"""C++ as a backend, on Warp's CPU device: a drop-in for Numba's, over the same columns in the same memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vecenv.errors import KernelError
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.host import INTERRUPTS, Launcher, find_device, kernel_of, once, raise_if_stopped
from vecenv.kernel.cpp.rows import NO_ROW, no_notes, refused
from vecenv.kernel.lower.columns import ORDERS, Slot
from vecenv.kernel.lower.program import Program, Site

if TYPE_CHECKING:
    from vecenv.kernel.backend import Precision

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
        device = find_device(self._device)
        with once(text, before):
            return CppCode(program.kernel.id, text, slots, device)


class CppCode:
    """Native code on a device. On the CPU it is a `NativeCode`, whose callers work on columns in the host's memory."""

    block = CHUNK
    sites: Sequence[Site] = ()

    def __init__(self, name: str, text: str, slots: list[Slot], device: Any) -> None:
        self.slots, self.device = slots, device
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
