"""The Numba backend: emitter, row loop, compiler, cache of native code, native random numbers and mathematics.

The locks of Numba and LLVM are taken only under `FORK_LOCK`, so that a forked child does not find them locked.
"""
