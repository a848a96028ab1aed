"""The columns of a device engine: arrays in the device's memory, and the tables of their addresses.

Results of steps (observations, rewards, flags, infos) go to a ring of layers, so that what was handed out stays as it
is during the next steps; each layer has a table of its own, so that no address is written while the device works.
Nothing is copied between host and device but by `push` and `pull`, which count.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vecenv.errors import ConfigError
from vecenv.kernel.cpp.host import warp
from vecenv.kernel.cpp.rows import NO_ROW, NOTES, no_notes
from vecenv.kernel.lower.columns import Slot, is_result, table_size


def bytes_needed(slots: Sequence[Slot], count: int, layers: int) -> int:
    """About how many bytes the columns of so many rows take."""
    return sum(slot.row_bytes * count * (layers if is_result(slot) else 1) for slot in slots if slot.shape is not None)


def check_room(needed: int, count: int, device: Any, steps: int | None = None) -> None:
    """Raise ConfigError if a device has not as much memory left for so many envs, or for a rollout of so many steps."""
    free = device.free_memory if device.is_cuda else _free_on_host()
    if needed > free:
        what = f"{count} envs" if steps is None else f"{steps} steps of {count} envs"
        fewer = "make fewer envs" if steps is None else "roll out fewer steps at a time"
        raise ConfigError(
            f"{what} need {needed / 2**30:.1f} GiB in the memory of {device.alias}, which has {free / 2**30:.1f} GiB "
            f"left; {fewer}"
        )


def _free_on_host() -> int:
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        if not hasattr(os, "sysconf"):  # Windows: an allocation that fails is an error by itself
            return sys.maxsize
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class DeviceMemory:
    """Columns in a device's memory.

    Args:
        slots: of the native code.
        columns: of the host, by name: what the device's columns begin with.
        device: Warp's.
        single: whether floats of 64 bits are 32 bits wide on the device.
        layers: of the ring.
        limit: of steps of an episode, None for none.
        poll: what loops ask, on the CPU (`host.INTERRUPTS`).
        given: arrays by name that are to be columns, flat; others are allocated.

    Attributes:
        in_ring: names of the columns in the ring.
        common: names of the columns that have one row for all envs. The device does not write to them.
        arrays: by name, Warp's; flat, as Warp's have at most four axes, but for an axis of layers of those in the ring.
        shapes: of the arrays; those in the ring have an axis of layers first.
        layer: the layer of the latest results.
        count: number of rows.
        transfers: how often something was copied between host and device.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        columns: Mapping[str, np.ndarray],
        device: Any,
        *,
        single: bool,
        layers: int,
        limit: int | None,
        poll: int = 0,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._no_notes = np.array(no_notes(poll), np.int64)
        self.slots, self.device, self.layers, self._single = list(slots), device, layers, single
        self.in_ring = {slot.name for slot in slots if is_result(slot)}
        self.common = {slot.name for slot in slots if slot.single}
        self.layer = self.transfers = 0
        self.arrays: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.count = count = len(columns["OP"])
        check_room(bytes_needed(slots, count, layers), count, device)
        try:
            for slot in slots:
                if not slot.name.startswith("C_"):
                    column = columns[slot.name]
                    self.shapes[slot.name] = (layers, *column.shape) if is_result(slot) else column.shape
                    held, make = (given or {}).get(slot.name), self.layered if is_result(slot) else self.empty
                    self.arrays[slot.name] = make(self.shapes[slot.name], column.dtype) if held is None else held
            self.notes = warp().array(self._no_notes, dtype=warp().int64, device=device)
            tables = [self.table(layer, limit, columns, (layer - 1) % layers) for layer in range(layers)]
            self._tables = warp().array(np.stack(tables), dtype=warp().int64, device=device)
        except (RuntimeError, MemoryError, ValueError) as error:  # ValueError: Warp counts elements with 32 bits
            self.arrays.clear()  # nothing is left allocated
            raise ConfigError(f"{count} envs do not fit the memory of {device.alias}; make fewer ({error})") from None
        self._table_bytes = 8 * table_size(self.slots)
        self.push(columns, self.arrays)
        self.transfers = 0

    def dtype(self, dtype: Any) -> np.dtype[Any]:
        """The dtype that a column of the host has on the device."""
        return np.dtype(np.float32) if self._single and np.dtype(dtype) == np.float64 else np.dtype(dtype)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """New memory for a column of the host, flat."""
        return warp().zeros(math.prod(shape), dtype=getattr(warp(), self.dtype(dtype).name), device=self.device)

    def layered(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """New memory for layers of a column, each of which is flat: an axis of Warp's has at most 2**31 - 1 places."""
        sizes = shape[0], math.prod(shape[1:])
        return warp().zeros(sizes, dtype=getattr(warp(), self.dtype(dtype).name), device=self.device)

    def table(self, layer: int, limit: int | None, columns: Mapping[str, np.ndarray], before: int) -> np.ndarray:
        """The words of the table of a layer, see `lower/columns.py`; `before` is the one of the latest observations."""
        table, extra = np.zeros(table_size(self.slots), np.int64), 2 * len(self.slots)
        for number, slot in enumerate(self.slots):
            table[2 * number] = self._address(slot.name, before if slot.name.startswith("C_") else layer)
            if slot.sized:
                table[extra : extra + slot.dimensions] = columns[slot.name].shape[1:]
                extra += slot.dimensions
        table[-1] = NO_ROW if limit is None else limit
        return table

    def _address(self, name: str, layer: int) -> int:
        """Where a column begins."""
        name = f"O_{name[2:]}" if name.startswith("C_") else name
        array = self.arrays[name]
        return array.ptr + (layer * array.strides[0] if name in self.in_ring else 0)

    @property
    def table_at(self) -> int:
        """The address of the table of the current layer."""
        return self._tables.ptr + self.layer * self._table_bytes

    def part(self, name: str) -> Any:
        """The column as it is now, flat: of the ring, the current layer."""
        array = self.arrays[name]
        return array[self.layer] if name in self.in_ring else array

    def row_bytes(self, slots: Iterable[Slot]) -> int:
        """Bytes of one row of these columns on the device."""
        return sum(math.prod(slot.shape or ()) * self.dtype(slot.dtype).itemsize for slot in slots)

    def check_rollout(self, step_bytes: int, steps: int) -> None:
        """Raise ConfigError if `steps` steps of `step_bytes` bytes each do not fit the memory."""
        check_room(steps * step_bytes, self.count, self.device, steps)

    # --- copies ------------------------------------------------------------------------------------------------------

    def push(self, columns: Mapping[str, np.ndarray], names: Iterable[str]) -> None:
        """Copy columns of the host to the device."""
        for name in names:
            column = np.ascontiguousarray(columns[name], self.dtype(columns[name].dtype))
            self.part(name).assign(column.ravel())
            self.transfers += 1

    def pull(self, columns: Mapping[str, np.ndarray], names: Iterable[str]) -> None:
        """Copy columns of the device to the host, but for `common` ones. It waits until the device is done."""
        for name in names:
            if name in self.common:
                continue
            columns[name][...] = self.part(name).numpy().reshape(columns[name].shape)
            self.transfers += 1

    def stopped_row(self) -> int:
        """Take note of the row whose loop was stopped, on the CPU, where notes are in the host's memory."""
        notes, place = self.notes.numpy(), NOTES.index("stopped_row")
        row, notes[place] = int(notes[place]), NO_ROW
        return row

    def take_notes(self) -> dict[str, int]:
        """What threads have noted since the last time. It waits until the device is done."""
        noted: dict[str, int] = dict(zip(NOTES, self.notes.numpy().tolist(), strict=True))
        self.notes.assign(self._no_notes)
        return noted
