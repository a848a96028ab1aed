"""The Numba backend: row loop, compiler, cache of native code, and the native random numbers and mathematics."""
