"""What the fork server imports before it forks: or each worker would import it by itself."""

from __future__ import annotations

import gc
import os

import gymnasium.envs.classic_control  # imported for its own sake, like the next
import gymnasium.envs.toy_text  # noqa: F401
import numpy as np

import vecenv.engines.process.child  # noqa: F401
from vecenv.engines.python.runner import row_loop

# The server is that of the whole program. Without this, all processes that it forks, the user's too, would draw the
# same numbers from NumPy's global stream.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=np.random.seed)

for stored in (True, False):  # compiled here, once, and not in each worker
    for timed in (True, False):
        row_loop(stored, True, timed, True)

# A garbage collection in a worker would write to all objects that exist now, so that the kernel had to copy them.
gc.freeze()
