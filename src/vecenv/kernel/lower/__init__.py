"""Lowering: kernels as functions over plain numbers and arrays."""
