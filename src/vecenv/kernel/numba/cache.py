"""Native code: compiled once, kept on disk, loaded without the compiler."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from vecenv._batch.layout import Layout
from vecenv._util.files import new_file
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.lower.lower import Lowering
from vecenv.kernel.numba.driver import Driver, Slot

Precision = Literal["exact", "fast"]
_MAGIC = b"vecenv kernel 1\n"
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_TURNS = "|/-\\"
_lock = threading.Lock()
_numbers = itertools.count()
"""For the names of libraries: one is taken for good, even if linking it fails."""


class Native:
    """The compiled row loop of a kernel.

    Attributes:
        slots: the columns that it works on, in the order of its table.
    """

    def __init__(self, address: int, slots: list[Slot], keep: Any) -> None:
        self.slots = slots
        self._function = _PROTOTYPE(address)
        self._keep = keep

    def caller(self) -> Callable[[int], int]:
        """A function of the address of orders (see `_driver.ORDERS`) that runs rows and returns how many ended.

        It returns -1 if an action was wrong and nothing was run.

        It has a place of its own for its result, so every thread needs its own. The GIL is released while it runs.
        """
        result, error = np.zeros(1, np.int64), np.zeros(1, np.int64)
        result_at, error_at, run, answer = result.ctypes.data, error.ctypes.data, self._function, result.item

        def call(orders: int) -> int:
            if run(result_at, error_at, orders):
                raise RuntimeError("native code of a kernel failed; this is a bug in vecenv")
            return answer()

        return call


def native(
    kernel: Kernel,
    observation: Layout,
    action: Layout,
    precision: Precision,
    policy: Callable[..., Any] | None = None,
    before: Callable[[], None] = lambda: None,
) -> Native:
    """The native code of a kernel for these spaces, from memory, from the disk or from the compiler.

    Args:
        kernel: the definition.
        observation, action: layouts of its spaces.
        precision: "exact" or "fast".
        policy: runs the env in closed loop, see `VectorEnv.rollout`.
        before: called before the compiler is.
    """
    lowering = Lowering(kernel, observation, action)
    if policy is not None:
        lowering.policy(policy)
    driver = Driver(kernel, lowering.program, observation, action)
    text = driver.text()

    def build() -> tuple[bytes, str]:
        before()
        from vecenv.kernel.numba.compile import compile_program

        return compile_program(lowering.program, text, precision, kernel.name)

    sources = tuple(Path(__file__).with_name(name) for name in ("compile.py", "math.py", "pcg64.py"))
    for module in sorted(set(lowering.program.twins.values())):
        found = importlib.util.find_spec(module)
        assert found is not None
        assert found.origin is not None
        sources = (*sources, Path(found.origin))
    parts = (lowering.program.text, text, precision)
    address, keep = load_or_compile(parts, sources, f"{kernel.id} ({precision})", build)
    return Native(address, driver.slots, keep)


def load_or_compile(
    parts: Sequence[str], sources: tuple[Path, ...], what: str, build: Callable[[], tuple[bytes, str]]
) -> tuple[int, Any]:
    """The address of native code, from memory, from the disk or from the compiler, and what keeps it loaded.

    Args:
        parts: texts that the code depends on.
        sources: files of vecenv that it depends on, the compiler among them.
        what: it is, for a user who waits.
        build: calls the compiler; returns an object file and the symbol of the function in it.
    """
    key = _key(parts, sources)
    with _lock:
        if key not in _loaded:
            found = _found(key)
            if found is None:
                with _alone(key):  # another process may be compiling the very same
                    found = _found(key) or _compiled(key, what, build)
            _loaded[key] = _load(*found)
        return _loaded[key]


_loaded: dict[str, tuple[int, Any]] = {}
"""Code that this process has loaded, by key. It is never unloaded: something may still be running it."""


def _compiled(key: str, what: str, build: Callable[[], tuple[bytes, str]]) -> tuple[bytes, str]:
    with _spinner(f"compiling {what}"):
        code, symbol = build()
    with contextlib.suppress(OSError):  # a cache that cannot be written is no cache
        _write(key, code, symbol)
    return code, symbol


def _load(code: bytes, symbol: str) -> tuple[int, Any]:
    """Link object code into this process; the C library's functions are taken from the process itself."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    library = builder.link(_linker(), f"vecenv{next(_numbers)}")
    return library[symbol], library


@functools.cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine())


# --- the cache -------------------------------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Where compiled kernels are kept: `$VECENV_CACHE_DIR`, else `vecenv` in the user's cache directory."""
    chosen = os.environ.get("VECENV_CACHE_DIR")
    if chosen:
        return Path(chosen)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "vecenv" / "kernels"


def _key(parts: Sequence[str], sources: tuple[Path, ...]) -> str:
    """All that the code depends on: the text that is compiled, with helpers and constants, versions and processor."""
    from importlib.metadata import version

    from vecenv import __version__

    parts = [*parts, __version__, version("numba"), llvmlite.__version__, np.__version__]
    parts += [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), sys.platform, _digest(sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _digest(sources: tuple[Path, ...]) -> str:
    """Of the modules that native code is made from, so that a change of vecenv itself is never missed."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _found(key: str) -> tuple[bytes, str] | None:
    """What the cache holds, None if it holds nothing or something damaged."""
    try:
        data = (cache_directory() / key).read_bytes()
    except OSError:
        return None
    magic, digest, rest = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if magic != _MAGIC or hashlib.sha256(rest).digest() != digest:
        return None
    symbol, _, code = rest.partition(b"\n")
    return code, symbol.decode()


def _write(key: str, code: bytes, symbol: str) -> None:
    """Add to the cache: written aside, then renamed, so that no other process ever sees half a file."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    rest = symbol.encode() + b"\n" + code
    with new_file(directory / key, private=True) as file:
        file.write(_MAGIC + hashlib.sha256(rest).digest() + rest)


@contextlib.contextmanager
def _alone(key: str) -> Iterator[None]:
    """Wait until no other process compiles the code of this key, so that eight that start at once compile it once.

    Other keys are compiled meanwhile. The lock only saves work: it ends with the process that holds it, and a process
    waits at most a minute. The file is removed before the lock is released; processes that still wait on the removed
    file find the code in the cache.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ImportError):
            import fcntl

            directory = cache_directory()
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = directory / f"{key}.lock"
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, lock)
            deadline = time.monotonic() + 60.0
            while time.monotonic() < deadline:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    stack.callback(path.unlink, missing_ok=True)
                    break
                time.sleep(0.05)
        yield


# --- what the user sees meanwhile ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _spinner(what: str) -> Iterator[None]:
    """Tell a user at a terminal what is going on, after a moment; say nothing to a log."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def spin() -> None:
        turn = 0
        while not done.wait(0.1):
            sys.stderr.write(f"\r{_TURNS[turn % 4]} {what} ... ")
            sys.stderr.flush()
            turn += 1
        if turn:
            sys.stderr.write(f"\r{' ' * (len(what) + 8)}\r")
            sys.stderr.flush()

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
