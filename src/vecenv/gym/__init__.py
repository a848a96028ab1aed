"""Interface of `gym.vector` before Gymnasium 1.0: `make`, `SyncVectorEnv`, `AsyncVectorEnv`.

When an episode ends, the next one begins in the same step. Results are those of gym 0.21 to 0.25: a step has four
values and infos are a tuple of one dict per env, with "terminal_observation". The same names in `vecenv.gym.v26` have
results of gym 0.26 and Gymnasium before 1.0: five values, infos as a dict of arrays with "final_observation" and
"final_info". The single envs are Gymnasium's.
"""

from vecenv.gym import v26
from vecenv.gym._make import make_of
from vecenv.gym._vector_env import AsyncVectorEnv, SyncVectorEnv, VectorEnv

__all__ = ["AsyncVectorEnv", "SyncVectorEnv", "VectorEnv", "make", "v26"]

make = make_of(SyncVectorEnv, AsyncVectorEnv)
