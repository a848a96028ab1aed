"""Ids of the kernels that come with vecenv. `kernel_ids()` has those that other tests define, too."""

from vecenv.kernel import kernel_ids
from vecenv.kernel.language.registry import find_kernel

SHIPPED = [id for id in kernel_ids() if find_kernel(id).definition.__module__.startswith("vecenv.")]
