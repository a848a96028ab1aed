"""Whether native code runs on this platform. A process of its own tries it where vecenv's tests have never run.

LLVM ends a process in which it cannot link, so this process must not be the first that tries.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version

from vecenv._util.files import write_file
from vecenv._util.version import __version__
from vecenv.kernel.numba.cache import cache_directory

_TESTED = "linux"
_INSIDE = "VECENV_NATIVE_TRIAL"
"""Environment variable of the process that tries."""
_PROGRAM = """
import vecenv
with vecenv.make("CartPole-v1", 2, engine="compiled") as envs:
    envs.reset(seed=0)
    envs.step([0, 1])
"""
_SECONDS = 120.0
_NO_NUMBA = ", and may not exist for this free-threaded Python: docs/platforms.md"


def is_free_threaded() -> bool:
    """Whether this Python can run threads without the GIL."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@functools.cache
def native_code_fails() -> str | None:
    """Why native code does not run on this platform, None if it does.

    It needs Numba, which does not exist for every Python. On Linux nothing else is tried. Elsewhere the first call
    of an installation takes seconds; a file in the kernel cache says to later processes that it went well.
    """
    if importlib.util.find_spec("numba") is None or importlib.util.find_spec("llvmlite") is None:
        return f"Numba is not installed{_NO_NUMBA if is_free_threaded() else ': pip install numba'}"
    if sys.platform == _TESTED or _INSIDE in os.environ:
        return None
    versions = (__version__, version("numba"), version("llvmlite"), version("numpy"), platform.python_version())
    key = hashlib.sha256(" ".join((*versions, sys.platform, platform.machine())).encode()).hexdigest()[:16]
    directory = cache_directory()
    mark = None if directory is None else directory / f"runs-{key}"
    if mark is not None and mark.exists():
        return None
    failure = _try()
    if failure is None and mark is not None:
        write_file(mark, "")
    return failure


def _try() -> str | None:
    """Run a kernel in another process; returns what went wrong."""
    with tempfile.TemporaryFile() as errors:
        try:
            code = subprocess.run(
                [sys.executable, "-c", _PROGRAM],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                timeout=_SECONDS,
                env={**os.environ, _INSIDE: "1"},
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"native code could not be tried on this platform ({sys.platform}): {error!s:.200}"
        if code == 0:
            return None
        errors.seek(0)
        last = (errors.read().decode(errors="replace").strip().splitlines() or ["no message"])[-1]
    return f"native code does not run on this platform ({sys.platform}): a trial ended with code {code} ({last:.200})"
