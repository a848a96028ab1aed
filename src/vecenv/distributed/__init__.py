"""Rollouts on many machines: actors hold the policy and the envs, and return whole fragments. Needs Ray."""

from vecenv.distributed._fragment import Fragment
from vecenv.distributed._rollouts import Rollouts, rollout
from vecenv.engines.ray.remote import ActorLoad

__all__ = ["ActorLoad", "Fragment", "Rollouts", "rollout"]
