"""The Numba backend: emitter, row loop, compiler, cache of native code, native random numbers and mathematics."""

from __future__ import annotations

import threading

from vecenv._util.forks import held_at_fork

COMPILING = held_at_fork(threading.RLock())
"""Held by the thread that imports the compiler, compiles or links, and by a fork. The locks of Numba and LLVM are taken
only under this one, so that a forked child does not find them locked."""
