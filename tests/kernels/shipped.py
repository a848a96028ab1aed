"""Ids of the kernels with one agent that come with vecenv, as far as this Gymnasium has them.

`kernel_ids()` has those with several agents and those that other tests define, too.
"""

from vecenv.kernel import kernel_ids
from vecenv.kernel.language import registry

SHIPPED = [id for id in kernel_ids() if id in registry.SHIPPED]
