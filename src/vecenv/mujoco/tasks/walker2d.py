"""Walker2d: a Hopper with two legs and no bounds on its state."""

from __future__ import annotations

import math

from vecenv.mujoco.tasks.hopper import Hopper


class Walker2d(Hopper, id="Walker2d-v5", max_episode_steps=1000):
    """Gymnasium's Walker2d-v5."""

    model = "walker2d_v5.xml"

    class Params(Hopper.Params):
        healthy_state_range = (-math.inf, math.inf)
        healthy_z_range = (0.8, 2.0)
        healthy_angle_range = (-1.0, 1.0)
