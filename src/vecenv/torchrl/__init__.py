"""TorchRL 0.14: `env(...)` is `vecenv.make(...)` as a TorchRL env, `AsyncEnv` acts on the envs that are ready first."""

from vecenv._util.extras import load_client as _load_client

_load_client("torchrl", "torchrl", "0.14.")  # before torch, which it brings

from vecenv.torchrl._agents import AgentsEnv
from vecenv.torchrl._env import AsyncEnv, env

__all__ = ["AgentsEnv", "AsyncEnv", "env"]
