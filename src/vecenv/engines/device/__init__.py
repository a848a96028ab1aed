"""Kernels on a device: thousands of rows as threads of a GPU, or the same code on the CPU."""
