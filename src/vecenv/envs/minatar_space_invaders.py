"""MinAtar's SpaceInvaders: shoot a block of aliens before it reaches the ground."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vecenv.envs._minatar import FIRE, LEFT, RIGHT, SIZE, STAY, actions, draw, planes, stick
from vecenv.kernel.language.define import kernel

USEFUL = (STAY, LEFT, RIGHT, FIRE)
COOLDOWN, SLOWEST, FASTEST, SHOT_EVERY = 5, 12, 6, 10
CANNON, ALIEN, TO_LEFT, TO_RIGHT, BULLET, BOMB = 0, 1, 2, 3, 4, 5
LOOKS = (
    ((126, 232, 122), 0.94),
    ((178, 132, 230), 0.8),
    ((178, 132, 230), 0.0),
    ((178, 132, 230), 0.0),
    ((255, 250, 225), 0.35),
    ((239, 83, 110), 0.35),
)


@kernel("MinAtar/SpaceInvaders-v0")
@kernel("MinAtar/SpaceInvaders-v1", kwargs={"use_minimal_action_set": True})
class MinAtarSpaceInvaders:
    """Equal to MinAtar's: an alien gives 1; a bullet, an alien at the cannon or one on the ground ends the episode.

    The fewer aliens are left, the faster they move; every new wave is faster too, unless `difficulty_ramping` is False.
    Planes: cannon, aliens, aliens again by the direction in which they move, own bullets, their bullets.
    """

    class Params:
        sticky_action_prob = 0.1
        difficulty_ramping = True
        use_minimal_action_set = False

    bounds: ClassVar = {"sticky_action_prob": (0.0, 1.0)}
    observation_space = planes(6)

    def action_space(p):
        return actions(USEFUL, p)

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "aliens": (bool, (SIZE, SIZE)),
        "bullets": (bool, (SIZE, SIZE)),
        "bombs": (bool, (SIZE, SIZE)),
        "x": int,
        "direction": int,
        "interval": int,
        "move_timer": int,
        "shot_timer": int,
        "cooldown": int,
        "last_action": int,
    }

    def reset(s, rng, p):
        s.aliens[:] = False
        s.aliens[:4, 2:8] = True
        s.bullets[:] = False
        s.bombs[:] = False
        s.x = 5
        s.direction = -1
        s.interval = s.move_timer = SLOWEST
        s.shot_timer = SHOT_EVERY
        s.cooldown = 0
        s.last_action = STAY

    def step(s, action, rng, p):
        """Move or shoot; then bullets, aliens and their shots, in this order."""
        action = stick(s, USEFUL[action] if p.use_minimal_action_set else action, rng, p)
        if action == FIRE and s.cooldown == 0:
            s.bullets[-1, s.x] = True
            s.cooldown = COOLDOWN
        elif action == LEFT:
            s.x = max(s.x - 1, 0)
        elif action == RIGHT:
            s.x = min(s.x + 1, SIZE - 1)
        s.bullets[:-1] = s.bullets[1:]
        s.bullets[-1] = False
        s.bombs[1:] = s.bombs[:-1]
        s.bombs[0] = False
        dead = s.bombs[-1, s.x] or s.aliens[-1, s.x]
        if s.move_timer == 0:
            s.move_timer = min(np.count_nonzero(s.aliens), s.interval)
            dead |= march(s)
        if s.shot_timer == 0:
            s.shot_timer = SHOT_EVERY
            shoot_back(s)
        hit = s.aliens & s.bullets
        s.aliens[hit] = False
        s.bullets[hit] = False
        s.cooldown = max(s.cooldown - 1, 0)
        s.move_timer -= 1
        s.shot_timer -= 1
        if not s.aliens.any():
            if p.difficulty_ramping and s.interval > FASTEST:
                s.interval -= 1
            s.aliens[:4, 2:8] = True
        return float(hit.sum()), dead

    def observe(s, obs, p):
        obs[-1, s.x, CANNON] = True
        obs[:, :, ALIEN] = s.aliens
        obs[:, :, TO_LEFT if s.direction < 0 else TO_RIGHT] = s.aliens
        obs[:, :, BULLET] = s.bullets
        obs[:, :, BOMB] = s.bombs

    def render(s, p) -> np.ndarray:
        """The board in colour."""
        seen = np.zeros((SIZE, SIZE, 6), bool)
        MinAtarSpaceInvaders.observe(s, seen, p)
        return draw(seen, LOOKS)


def march(s):
    """Move the aliens aside, or down if they are at an edge; return whether that ends the episode."""
    edge = 0 if s.direction < 0 else SIZE - 1
    if s.aliens[:, edge].any():
        s.direction = -s.direction
        landed = s.aliens[-1].any()
        s.aliens = np.roll(s.aliens, 1, axis=0)
    else:
        landed = False
        s.aliens = np.roll(s.aliens, s.direction, axis=1)
    return landed or s.aliens[-1, s.x]


def shoot_back(s):
    """The lowest alien of the column nearest to the cannon shoots; of two columns as near, the left one."""
    columns = np.flatnonzero(s.aliens.any(axis=0))
    if len(columns) == 0:
        return
    column = columns[np.argmin(np.abs(columns - s.x))]
    s.bombs[np.flatnonzero(s.aliens[:, column]).max(), column] = True
