"""Several agents in each environment: rows with slots."""

from vecenv.agents._flat import FlatVectorEnv
from vecenv.agents._league import League
from vecenv.agents._step import AgentStep
from vecenv.agents._vector_env import MultiAgentVectorEnv
from vecenv.agents._versus import VersusVectorEnv

__all__ = ["AgentStep", "FlatVectorEnv", "League", "MultiAgentVectorEnv", "VersusVectorEnv"]
