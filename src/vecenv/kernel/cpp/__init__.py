"""Kernels as C++ for CPUs and GPUs: text for NVIDIA's Warp, which compiles it for either."""
