"""EnvPool's words: `make`, `make_gym`, `make_gymnasium`, `make_dm`, with `recv`, `send` and `async_reset`.

The envs are those of `vecenv.make`: seeds give Gymnasium's episodes, not EnvPool's.
"""

from vecenv.envpool._dm import DmEnvPool
from vecenv.envpool._make import make, make_dm, make_gym, make_gymnasium
from vecenv.envpool._pool import EnvPool

__all__ = ["DmEnvPool", "EnvPool", "make", "make_dm", "make_gym", "make_gymnasium"]
