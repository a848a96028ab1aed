"""A pytest plugin that replaces Gymnasium's vector envs by vecenv's, to run Gymnasium's own tests on them.

In a checkout of Gymnasium: `pytest -p vecenv.testing.replace_gymnasium tests/vector`.
"""

import gymnasium.vector.async_vector_env
import gymnasium.vector.sync_vector_env

from vecenv.gymnasium import AsyncVectorEnv, SyncVectorEnv

for module in (gymnasium.vector, gymnasium.vector.sync_vector_env):
    module.SyncVectorEnv = SyncVectorEnv  # type: ignore[misc]  # replaced on purpose
for module in (gymnasium.vector, gymnasium.vector.async_vector_env):
    module.AsyncVectorEnv = AsyncVectorEnv  # type: ignore[misc]  # replaced on purpose
