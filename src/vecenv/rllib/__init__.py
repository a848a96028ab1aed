"""RLlib's interface: many environments as one, in three modes.

    config = vecenv.rllib.configure(PPOConfig(), "CartPole-v1", num_envs=1024, mode="native", train_batch=32768)
    algo = config.build_algo()

- "vec": RLlib's own sampling, through `vector_entry_point`. Every env has an episode object, and every step costs about
  50 us of Python per env. Any algorithm.
- "packed_vec": RLlib sees one env with N sub-envs; their rewards and flags are part of the observation and are
  unpacked in the learner. PPO.
- "native": vecenv's EnvRunner, which passes one `PackedRollout` to the learner. PPO, APPO and IMPALA, and the fastest.

All three learn from the same transitions; see docs/rllib.md for the cost of each.
"""

from __future__ import annotations

from vecenv._util.extras import load_client as _load_client

_load_client("ray.rllib", "ray", "2.60.", install="vecenv[rllib]")
_load_client("torch", "torch", "2.", install="vecenv[rllib]")

from vecenv.rllib._agents import AgentEnvRunner, AgentVectorEnv
from vecenv.rllib._configure import MODES, Mode, configure, register
from vecenv.rllib._envs import register_env_id as _register_env_id
from vecenv.rllib._learner import PackedAPPOLearner, PackedIMPALALearner, PackedPPOLearner
from vecenv.rllib._normalizer import ObservationNormalizer
from vecenv.rllib._packed_env import PackedVectorEnv
from vecenv.rllib._rollout import PackedRollout
from vecenv.rllib._runners import NativeEnvRunner, PackedEnvRunner

__all__ = [
    "MODES",
    "AgentEnvRunner",
    "AgentVectorEnv",
    "Mode",
    "NativeEnvRunner",
    "ObservationNormalizer",
    "PackedAPPOLearner",
    "PackedEnvRunner",
    "PackedIMPALALearner",
    "PackedPPOLearner",
    "PackedRollout",
    "PackedVectorEnv",
    "configure",
    "register",
]

_register_env_id()
