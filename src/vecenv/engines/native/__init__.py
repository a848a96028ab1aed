"""Engines of native code: kernels and MuJoCo tasks."""
