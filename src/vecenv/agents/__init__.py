"""Several agents in each environment: rows with slots."""

from vecenv.agents._step import AgentStep
from vecenv.agents._vector_env import MultiAgentVectorEnv

__all__ = ["AgentStep", "MultiAgentVectorEnv"]
