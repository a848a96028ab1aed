"""What native code calls outside of itself: functions of math and of memory, and Python's. Nothing that allocates."""

from __future__ import annotations

import math
import struct
import sys

import pytest

import vecenv
from tests.kernels.array_kernels import Points
from tests.kernels.shipped import SHIPPED
from vecenv.kernel.numba import entry, interrupts, load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="object files of other platforms are no ELF files")

MEMORY = {"memset", "memcpy", "memmove", "memcmp"}
OF_PYTHON = {*entry.symbols(), *interrupts.symbols()}
SYMBOL_TABLE, UNDEFINED = 2, 0


def symbols_that_are_missing(code: bytes) -> set[str]:
    """The undefined symbols of an ELF64 file."""
    (sections_at,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, sections_at + size * number) for number in range(count)]
    found = set()
    for _, kind, _, _, start, length, link, _, _, each in sections:
        if kind == SYMBOL_TABLE:
            names_at = sections[link][4]
            for place in range(start + each, start + length, each):  # the first one is empty
                name, _, _, section = struct.unpack_from("<IBBH", code, place)
                if section == UNDEFINED:
                    found.add(code[names_at + name : code.index(b"\0", names_at + name)].decode())
    return found


def is_harmless(symbol: str) -> bool:
    is_math = symbol.removesuffix("f") in {*dir(math), "sincos"}
    return is_math or symbol in MEMORY or symbol in OF_PYTHON


@pytest.fixture
def codes(monkeypatch):
    """The object files that are loaded, as if none were loaded yet."""
    found: list[bytes] = []
    link = load._load

    def noted(code, *rest):
        found.append(code)
        return link(code, *rest)

    monkeypatch.setattr(load, "_loaded", {})
    monkeypatch.setattr(load, "_load", noted)
    return found


@pytest.mark.timeout(300)  # the compiler, if no other test has called it for these
@pytest.mark.parametrize("definition", [Points, "CartPole-v1", "2048-v0", "Tetris-v0"])
def test_no_step_of_a_kernel_allocates(definition, codes):
    vecenv.make(definition, 1, engine="compiled", workers=1).close()
    assert codes
    assert not {symbol for code in codes for symbol in symbols_that_are_missing(code) if not is_harmless(symbol)}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [None, "bounds"])
@pytest.mark.parametrize("id", SHIPPED)
def test_no_step_of_any_kernel_allocates(id, check, codes):
    vecenv.make(id, 1, engine="compiled", workers=1, check=check).close()
    assert codes
    assert not {symbol for code in codes for symbol in symbols_that_are_missing(code) if not is_harmless(symbol)}


def test_an_allocation_would_be_noticed(codes):
    """A function that Numba compiles with an array of its own calls the allocator of Numba."""
    import numpy as np
    from numba import njit, types

    run = njit((types.int64,))(lambda size: np.ones(size).sum())
    code = run.overloads[(types.int64,)].library._get_compiled_object()
    assert any("NRT" in symbol and not is_harmless(symbol) for symbol in symbols_that_are_missing(code))
