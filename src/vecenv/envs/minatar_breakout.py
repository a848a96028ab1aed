"""MinAtar's Breakout: a ball, a paddle and three rows of bricks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vecenv.envs._minatar import LEFT, RIGHT, SIZE, STAY, actions, draw, planes, stick
from vecenv.kernel.language.define import kernel

USEFUL = (STAY, LEFT, RIGHT)
PADDLE, BALL, TRAIL, BRICK = 0, 1, 2, 3
LOOKS = (((226, 232, 248), 0.94), ((255, 250, 225), 0.7), ((150, 140, 120), 0.4), ((239, 83, 110), 0.94))


@kernel("MinAtar/Breakout-v0")
@kernel("MinAtar/Breakout-v1", kwargs={"use_minimal_action_set": True})
class MinAtarBreakout:
    """Equal to MinAtar's: the ball moves diagonally, one cell per step; a brick gives 1.

    A ball that the paddle misses ends the episode. When the last brick is gone, a new wall appears as the ball comes
    down to the paddle. Planes: paddle, ball, the ball's last place, bricks.
    """

    class Params:
        sticky_action_prob = 0.1
        use_minimal_action_set = False

    bounds: ClassVar = {"sticky_action_prob": (0.0, 1.0)}
    observation_space = planes(4)

    def action_space(p):
        return actions(USEFUL, p)

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "bricks": (bool, (SIZE, SIZE)),
        "paddle": int,
        "ball": (int, (2,)),
        "trail": (int, (2,)),
        "way": (int, (2,)),
        "struck": bool,
        "last_action": int,
    }

    def reset(s, rng, p):
        """The ball comes down from the left or from the right edge."""
        s.bricks[:] = False
        s.bricks[1:4] = True
        s.paddle = 4
        from_right = rng.integers(2) == 1
        s.ball[:] = (3, SIZE - 1 if from_right else 0)
        s.way[:] = (1, -1 if from_right else 1)
        s.trail = s.ball
        s.struck = False
        s.last_action = STAY

    def step(s, action, rng, p):
        """Move the paddle, then the ball."""
        action = stick(s, USEFUL[action] if p.use_minimal_action_set else action, rng, p)
        if action == LEFT:
            s.paddle = max(s.paddle - 1, 0)
        elif action == RIGHT:
            s.paddle = min(s.paddle + 1, SIZE - 1)
        s.trail = s.ball
        return fly(s)

    def observe(s, obs, p):
        obs[SIZE - 1, s.paddle, PADDLE] = True
        obs[s.ball[0], s.ball[1], BALL] = True
        obs[s.trail[0], s.trail[1], TRAIL] = True
        obs[:, :, BRICK] = s.bricks

    def render(s, p) -> np.ndarray:
        """The board in colour."""
        seen = np.zeros((SIZE, SIZE, 4), bool)
        MinAtarBreakout.observe(s, seen, p)
        return draw(seen[:, :, [TRAIL, BRICK, PADDLE, BALL]], tuple(LOOKS[plane] for plane in (2, 3, 0, 1)))


def fly(s):
    """Move the ball by one cell and bounce it; return the reward, and whether the paddle missed it."""
    y, x = s.ball + s.way
    if x < 0 or x >= SIZE:
        x = min(max(x, 0), SIZE - 1)
        s.way[1] = -s.way[1]
    reward = 0.0
    missed = False
    meets_brick = False
    if y < 0:
        y = 0
        s.way[0] = -s.way[0]
    elif s.bricks[y, x]:
        meets_brick = True
        if not s.struck:
            reward = 1.0
            s.struck = True
            s.bricks[y, x] = False
            y = s.trail[0]
            s.way[0] = -s.way[0]
    elif y == SIZE - 1:
        if not s.bricks.any():
            s.bricks[1:4] = True
        if s.ball[1] == s.paddle:
            s.way[0] = -s.way[0]
            y = s.trail[0]
        elif x == s.paddle:
            s.way = -s.way
            y = s.trail[0]
        else:
            missed = True
    if not meets_brick:
        s.struck = False
    s.ball[:] = (y, x)
    return reward, missed
