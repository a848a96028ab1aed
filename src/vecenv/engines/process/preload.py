"""What the fork server imports before it forks: or each worker would import NumPy and Gymnasium by itself."""

from __future__ import annotations

import os

import numpy as np

import vecenv.engines.process.child  # noqa: F401  # imported for its own sake

# The server is that of the whole program. Without this, all processes that it forks, the user's too, would draw the
# same numbers from NumPy's global stream.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=np.random.seed)
