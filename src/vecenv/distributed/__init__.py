"""Rollouts on many machines: policies are shipped to the envs, and whole fragments come back. Needs Ray."""

from vecenv.distributed._fragment import Fragment
from vecenv.distributed._rollouts import Rollouts, rollout
from vecenv.engines.ray.remote import ActorLoad

__all__ = ["ActorLoad", "Fragment", "Rollouts", "rollout"]
