"""Wrappers: vector envs seen through a transform. They stack on each other, and Gymnasium's own stack on them."""

from vecenv.wrappers._rewards import ClipReward
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper

__all__ = ["ClipReward", "Transform", "Wrapper"]
