"""Warp as the host of generated C++: the one module that imports it.

Warp compiles the text with the clang that it brings for its CPU device, and with NVRTC for CUDA devices; for those it
needs a driver only when code is to run. Compiled code is kept in vecenv's cache directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.forks import FORK_LOCK
from vecenv.errors import ConfigError, KernelError, MissingExtra
from vecenv.kernel.cpp.emit import ARGUMENTS
from vecenv.kernel.numba import cache, interrupts

WORDS = tuple(ARGUMENTS)[1:]
"""The arguments of a launch."""
_kernels: dict[str, Any] = {}
"""Warp's kernels by a hash of their texts: the same text is compiled once."""
_TRIED = "tried"
"""What a file of the cache says that stands for a text that was compiled; Warp keeps the code itself."""
_lock = threading.Lock()


def warp() -> Any:
    """The module `warp`, set up. Raises MissingExtra."""
    with FORK_LOCK:
        try:
            import warp as wp  # pyright: ignore[reportMissingImports]  # optional
        except ModuleNotFoundError as error:
            if error.name != "warp":
                raise
            raise MissingExtra("the device engine needs Warp: pip install 'vecenv[gpu]'") from None
    with _lock:
        directory = cache.cache_directory()
        if wp.config.kernel_cache_dir is None and directory is not None and not _is_initialised(wp):
            wp.config.kernel_cache_dir = str(directory / "warp")
        if not _is_initialised(wp):
            level, wp.config.log_level = wp.config.log_level, wp.LOG_ERROR
            with _without_remarks():
                wp.init()
            wp.config.log_level = max(level, wp.LOG_WARNING)
    return wp


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """Where there is no driver, Warp's library says so on standard error. `find_device` does if that matters."""
    kept = None if _has_driver() else _copy_of_stderr()
    if kept is None:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _copy_of_stderr() -> int | None:
    try:
        return os.dup(2)
    except OSError:  # it is closed
        return None


def _is_initialised(wp: Any) -> bool:
    return getattr(getattr(wp, "_src", None), "context", None) is not None and wp._src.context.runtime is not None


def find_device(name: Any) -> Any:
    """Warp's device of a name such as "cpu", "cuda" or "cuda:1". Raises ConfigError, which says what there is."""
    if not isinstance(name, str) or re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise ConfigError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {name!r:.40}")
    wp = warp()
    if name != "cpu" and not wp.is_cuda_available():
        raise ConfigError(
            f"device={name!r} needs an NVIDIA driver and a GPU, and there is none here; device='cpu' runs the same code"
        )
    names = [device.alias for device in wp.get_devices()]
    if name != "cpu" and name != "cuda" and name not in names:
        raise ConfigError(f"device={name!r} is not there; there are {', '.join(names)}")
    return wp.get_device(name)


@contextlib.contextmanager
def once(text: str, before: Callable[[], None]) -> Iterator[None]:
    """Call `before`, unless this text has been compiled after it already, here or in another process."""
    key = hashlib.sha256(f"{_TRIED}{text}".encode()).hexdigest()
    tried = cache.find(key) is not None
    if not tried:
        before()
    yield
    if not tried:
        with contextlib.suppress(OSError):  # without a cache it is called again by the next process
            cache.store(key, b"", _TRIED)


def kernel_of(name: str, text: str) -> Any:
    """A Warp kernel that calls the native function with this text as its body, once per thread."""
    warp()
    key = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        if key not in _kernels:
            from vecenv.kernel.cpp.warp_kernel import make_kernel

            _kernels[key] = make_kernel(re.sub(r"\W", "_", name), text)
        return _kernels[key]


@contextlib.contextmanager
def _without_precompiled_headers(wp: Any) -> Iterator[None]:
    """Ours are short. Warp would leave a folder of precompiled ones to Python's end, which is a ResourceWarning."""
    with _lock:
        before = getattr(wp.config, "use_precompiled_headers", None)  # not in every version
        if before is not None:
            wp.config.use_precompiled_headers = False
        try:
            yield
        finally:
            if before is not None:
                wp.config.use_precompiled_headers = before


class Launcher:
    """Launches a kernel on a device, again and again; words that are the same as before are not packed anew.

    Args:
        kernel: of `kernel_of`.
        device: of `find_device`.

    Raises:
        KernelError: the compiler refuses the text.
    """

    def __init__(self, kernel: Any, device: Any) -> None:
        wp = warp()
        self._words: list[Any] = [0] * len(WORDS)
        try:
            with _without_precompiled_headers(wp):
                self._launch = wp.launch(kernel, dim=1, inputs=self._words, device=device, record_cmd=True)
        except KernelError:
            raise
        except Exception as error:
            raise _refused(error) from error
        self._threads = 1

    def __call__(self, threads: int, words: Sequence[int], stream: Any = None) -> None:
        launch = self._launch
        for place, word in enumerate(words):
            if self._words[place] != word:
                launch.set_param_at_index(place, word)
                self._words[place] = word
        if threads != self._threads:
            launch.set_dim(threads)
            self._threads = threads
        launch.launch(stream)


def _refused(error: Exception) -> KernelError:
    found = KernelError(
        "no native code can be made of this kernel, although the C++ backend does not refuse it: a defect of vecenv. "
        "Please report it with the error's `compiler_text`; engine='compiled' runs the kernel meanwhile"
    )
    found.compiler_text = str(error)
    return found


def compiled_for(kernel: Any, architecture: int, folder: Path, ptx: bool = True) -> Path:
    """PTX, or machine code, of a kernel for a GPU of this architecture (80 for sm_80), which need not be there."""
    wp = warp()
    (found,) = wp.compile_aot_module(kernel.module, arch=architecture, module_dir=folder, use_ptx=ptx)
    return Path(found)


_interrupts = np.array([interrupts.symbols()[name] for name in interrupts.PYTHON], np.int64)
INTERRUPTS = int(_interrupts.ctypes.data)
"""Where the addresses of Python's functions are that loops on the CPU ask whether to stop (`numba/interrupts.py`)."""


def raise_if_stopped(stopped_row: int, no_row: int) -> None:
    """Raise for loops that were stopped on the CPU. Usually the handler of the signal has raised before."""
    if stopped_row != no_row:
        raise KeyboardInterrupt("a loop of native code that did not end was interrupted; reset the envs")
