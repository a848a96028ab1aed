"""Native code in memory: from the cache or from the compiler, linked into this process without Numba."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from vecenv._util.forks import FORK_LOCK
from vecenv._util.garbage import no_garbage_collection
from vecenv._util.version import __version__
from vecenv.errors import UnsupportedError
from vecenv.kernel.numba import cache, entry, interrupts
from vecenv.kernel.numba.trial import native_code_fails

NativeFunction = Callable[[int, int, int | bytes], int]
"""Native code as Numba makes it: gets addresses of a result, an error and a table, or the table itself; 0: success."""
c_function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_TURNS = "|/-\\"
_numbers = itertools.count()
"""For the names of libraries: one is taken for good, even if linking it fails."""


def load_or_compile(
    parts: Sequence[str],
    sources: tuple[Path, ...],
    what: str,
    build: Callable[[], tuple[bytes, str]],
    function_at: Callable[[int], Any] = c_function,
) -> Any:
    """Native code, from memory, from the disk or from the compiler. The GIL is released while it runs.

    Args:
        parts: texts that the code depends on.
        sources: files of vecenv that it depends on, the compiler among them.
        what: what is compiled, for a user who waits.
        build: calls the compiler; returns an object file and the symbol of the function in it.
        function_at: makes a function of Python of its address; by default a `NativeFunction`.

    Raises:
        ConfigError: `VECENV_CACHE_SIZE` holds no size.
        UnsupportedError: native code does not run on this platform.
    """
    if (failure := native_code_fails()) is not None:
        raise UnsupportedError(failure)
    key = _key(parts, sources)
    with FORK_LOCK:
        if key not in _loaded:
            found = cache.find(key)
            if found is None:
                with cache.locked(key):  # another process may be compiling the very same
                    found = cache.find(key) or _compiled(key, what, build)
            _loaded[key] = _load(*found, function_at)
        return _loaded[key][0]


_loaded: dict[str, tuple[Any, Any]] = {}
"""Code that this process has loaded and its library, by key. It is never unloaded: it may still be running."""


def _compiled(key: str, what: str, build: Callable[[], tuple[bytes, str]]) -> tuple[bytes, str]:
    cache.cache_size()  # raises now, not after the compiler
    with _spinner(f"compiling {what}"), no_garbage_collection():
        code, symbol = build()
    with contextlib.suppress(OSError):  # without a cache the code is compiled again by the next process
        cache.store(key, code, symbol)
    return code, symbol


def _load(code: bytes, symbol: str, function_at: Callable[[int], Any]) -> tuple[Any, Any]:
    """Link object code into this process; the C library's functions are taken from the process itself."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for name, address in {**interrupts.symbols(), **entry.symbols()}.items():
        builder.import_symbol(name, address)
    library = builder.link(_linker(), f"vecenv{next(_numbers)}")
    return function_at(library[symbol]), library


@functools.cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine())


def _key(parts: Sequence[str], sources: tuple[Path, ...]) -> str:
    """Hash of all that the code depends on: the text with helpers and constants, versions, processor and sources."""
    from importlib.metadata import version

    parts = [*parts, __version__, version("numba"), llvmlite.__version__, np.__version__]
    parts += [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), sys.platform, _digest(sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _digest(sources: tuple[Path, ...]) -> str:
    """Hash of the modules that native code is made from, so that a change of vecenv itself is never missed."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()


# --- what the user sees meanwhile ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _spinner(what: str) -> Iterator[None]:
    """Show at a terminal what is being compiled; print nothing to a log."""
    stream: Any = sys.stderr
    try:
        terminal = stream.isatty()
    except (AttributeError, ValueError):  # None in a program without a console, a stand-in that only writes, or closed
        terminal = False
    if not terminal:
        yield
        return
    done = threading.Event()

    def spin() -> None:
        turn = 0
        while not done.wait(0.1):
            stream.write(f"\r{_TURNS[turn % 4]} {what} ... ")
            stream.flush()
            turn += 1
        if turn:
            stream.write(f"\r{' ' * (len(what) + 8)}\r")
            stream.flush()

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
