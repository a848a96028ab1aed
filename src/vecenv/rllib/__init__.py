"""The face of RLlib: many environments as one, in three modes.

    config = vecenv.rllib.configure(PPOConfig(), "CartPole-v1", num_envs=1024, mode="native", train_batch=32768)
    algo = config.build_algo()

- "vec": RLlib's own way, through `vector_entry_point`. Every sub-env has an episode object and every step costs it some
  50 us of Python. Any algorithm.
- "packed_vec": RLlib sees one env with N sub-envs; their rewards and flags travel inside the observation and are
  unpacked in the learner. PPO.
- "native": an EnvRunner of ours that hands the learner one `PackedRollout`. PPO, and the fastest.

What is learned from is the same in all three; see docs/rllib.md for what each costs.
"""

from __future__ import annotations

import importlib as _importlib

from vecenv.errors import MissingExtra

try:
    for _name in ("ray.rllib", "torch"):
        _importlib.import_module(_name)
except ImportError as _error:
    raise MissingExtra(
        f"vecenv.rllib needs RLlib and torch: pip install 'vecenv[rllib]' ({_error.name or _error} is missing)"
    ) from _error

from vecenv.rllib._configure import MODES, Mode, configure, register
from vecenv.rllib._envs import register_env_id as _register_env_id
from vecenv.rllib._learner import PackedPPOLearner
from vecenv.rllib._normalizer import ObservationNormalizer
from vecenv.rllib._packed_env import PackedVectorEnv
from vecenv.rllib._rollout import PackedRollout
from vecenv.rllib._runners import NativeEnvRunner, PackedEnvRunner

__all__ = [
    "MODES",
    "Mode",
    "NativeEnvRunner",
    "ObservationNormalizer",
    "PackedEnvRunner",
    "PackedPPOLearner",
    "PackedRollout",
    "PackedVectorEnv",
    "configure",
    "register",
]

_register_env_id()
