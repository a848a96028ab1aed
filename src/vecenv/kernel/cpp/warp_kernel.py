"""How Warp is given generated C++. Warp reads the source of these functions, so they stand in a file of their own."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import warp as wp  # pyright: ignore[reportMissingImports]  # optional

_HEADERS = Path(__file__).with_name("headers")
_UNROLLED = "-mllvm -unroll-full-max-count=4 -mllvm -unroll-runtime=0 -mllvm -unroll-allow-peeling=0"
"""Only short loops are unrolled: games loop over boards, and code for each cell is slower and compiles for longer."""
_INLINED = "-mllvm -inline-threshold=500"
"""Twice clang's own: rows are run by one loop, and larger functions know the sizes of their arrays inside it."""


@functools.cache
def cpu_flags() -> str:
    """Flags for the CPU's compiler. With a version of Warp that was tried, it finds our headers before Warp's.

    The flags are part of the name of the compiled code, and so is a hash of the headers.
    """
    flags, folder = "-march=native", str(_HEADERS)
    if not wp.__version__.startswith("1.19.") or folder.split() != [folder]:  # Warp splits flags at spaces
        return flags
    texts = b"".join(path.read_bytes() for path in sorted(_HEADERS.iterdir()))
    return f"{flags} {_UNROLLED} {_INLINED} -iquote {folder} -DVECENV_HEADERS={hashlib.sha256(texts).hexdigest()[:16]}"


def make_kernel(name: str, text: str) -> Any:
    """A Warp kernel that calls a native function with this text as its body, once per thread."""

    def native(
        thread: wp.int64,
        table: wp.uint64,
        rows: wp.uint64,
        start: wp.int64,
        stop: wp.int64,
        alive: wp.int64,
        over: wp.int64,
        steps: wp.int64,
        check: wp.int64,
        chunk: wp.int64,
        notes: wp.uint64,
        action: wp.uint64,
    ): ...

    native.__name__ = native.__qualname__ = f"vecenv_native_{name}"
    run = wp.func_native(text)(native)

    def launched(
        table: wp.uint64,
        rows: wp.uint64,
        start: wp.int64,
        stop: wp.int64,
        alive: wp.int64,
        over: wp.int64,
        steps: wp.int64,
        check: wp.int64,
        chunk: wp.int64,
        notes: wp.uint64,
        action: wp.uint64,
    ):
        thread = wp.int64(wp.tid())  # type: ignore[arg-type]  # launches have one dimension: it is an int
        run(thread, table, rows, start, stop, alive, over, steps, check, chunk, notes, action)

    launched.__name__ = launched.__qualname__ = f"vecenv_rows_{name}"
    options = {"fuse_fp": False, "cpu_compiler_flags": cpu_flags()}
    return wp.kernel(launched, enable_backward=False, module="unique", module_options=options)
