"""The Numba backend: emitter, row loop, compiler, cache of native code, native random numbers and mathematics."""
