"""MinAtar's Freeway: cross eight lanes of traffic."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vecenv.envs._minatar import DOWN, SIZE, STAY, UP, actions, draw, planes, stick
from vecenv.kernel.language.define import kernel

USEFUL = (STAY, UP, DOWN)
LANES = 8
COLUMN = 4
"""Where the chicken walks up."""
REST = 3
"""Steps between two moves of the chicken."""
LIMIT = 2500
CHICKEN, CAR, SPEED = 0, 1, 2
"""Planes; after `SPEED` there is one for each of the five speeds."""
LOOKS = (
    ((255, 236, 150), 0.8),
    ((239, 83, 110), 0.94),
    *(((90 + 30 * speed, 120, 200 - 20 * speed), 0.45) for speed in range(5)),
)


@kernel("MinAtar/Freeway-v0")
@kernel("MinAtar/Freeway-v1", kwargs={"use_minimal_action_set": True})
class MinAtarFreeway:
    """Equal to MinAtar's: reaching the other side gives 1, and the traffic changes; a car sends the chicken back.

    The episode ends after 2,500 steps. Planes: chicken, cars, and behind a car, in the plane of its speed, a trail.
    """

    class Params:
        sticky_action_prob = 0.1
        use_minimal_action_set = False

    bounds: ClassVar = {"sticky_action_prob": (0.0, 1.0)}
    observation_space = planes(7)

    def action_space(p):
        return actions(USEFUL, p)

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 20}
    state: ClassVar = {
        "x": (np.int8, (LANES,)),
        "speed": (np.int8, (LANES,)),
        "timer": (np.int8, (LANES,)),
        "chicken": int,
        "rest": int,
        "left": int,
        "last_action": int,
    }

    def reset(s, rng, p):
        s.x[:] = 0
        new_traffic(s, rng)
        s.chicken = SIZE - 1
        s.rest = REST
        s.left = LIMIT
        s.last_action = STAY

    def step(s, action, rng, p):
        """Walk, then move the cars: each has its own speed, one cell every 1 to 5 steps."""
        action = stick(s, USEFUL[action] if p.use_minimal_action_set else action, rng, p)
        if s.rest == 0 and action in (UP, DOWN):
            s.rest = REST
            s.chicken = max(s.chicken - 1, 0) if action == UP else min(s.chicken + 1, SIZE - 1)
        reward = 0.0
        if s.chicken == 0:
            reward = 1.0
            new_traffic(s, rng)
            s.chicken = SIZE - 1
        flee(s)
        moves = s.timer == 0
        s.x = np.where(moves, (s.x + np.sign(s.speed)) % SIZE, s.x)
        s.timer = np.where(moves, np.abs(s.speed), s.timer - 1)
        flee(s)
        s.rest = max(s.rest - 1, 0)
        s.left -= 1
        return reward, s.left < 0

    def observe(s, obs, p):
        obs[s.chicken, COLUMN, CHICKEN] = True
        for lane in range(LANES):
            obs[lane + 1, s.x[lane], CAR] = True
            speed = s.speed[lane]
            behind = (s.x[lane] - (1 if speed > 0 else -1)) % SIZE
            obs[lane + 1, behind, SPEED + abs(speed) - 1] = True

    def render(s, p) -> np.ndarray:
        """The board in colour."""
        seen = np.zeros((SIZE, SIZE, 7), bool)
        MinAtarFreeway.observe(s, seen, p)
        return draw(seen[:, :, ::-1], LOOKS[::-1])


def new_traffic(s, rng):
    """Draw speeds, which are negative to the left."""
    speed = rng.integers(1, 6, size=LANES)
    s.timer = speed
    s.speed = np.where(rng.random(size=LANES) < 0.5, -speed, speed)


def flee(s):
    """Send the chicken back if a car is where it is."""
    lane = s.chicken - 1
    if 0 <= lane < LANES and s.x[lane] == COLUMN:
        s.chicken = SIZE - 1
