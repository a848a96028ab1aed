"""MinAtar's Asterix: collect gold and avoid enemies that cross the board."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from vecenv.envs._minatar import DOWN, LEFT, RIGHT, SIZE, STAY, UP, actions, draw, planes, stick
from vecenv.kernel.language.define import kernel

USEFUL = (STAY, LEFT, UP, RIGHT, DOWN)
LANES = 8
SPAWN_SPEED, MOVE_SPEED, RAMP = 10, 5, 100
PLAYER, ENEMY, TRAIL, GOLD = 0, 1, 2, 3
LOOKS = (((126, 232, 122), 0.85), ((239, 83, 110), 0.85), ((110, 110, 150), 0.4), ((250, 206, 82), 0.7))


@kernel("MinAtar/Asterix-v0")
@kernel("MinAtar/Asterix-v1", kwargs={"use_minimal_action_set": True})
class MinAtarAsterix:
    """Equal to MinAtar's: gold gives 1, an enemy ends the episode. Both cross the board, one in each of eight lanes.

    They come and move faster the longer the game is, unless `difficulty_ramping` is False. Planes: player, enemies,
    trails, which are where a thing was before, and gold.
    """

    class Params:
        sticky_action_prob = 0.1
        difficulty_ramping = True
        use_minimal_action_set = False

    bounds: ClassVar = {"sticky_action_prob": (0.0, 1.0)}
    observation_space = planes(4)

    def action_space(p):
        return actions(USEFUL, p)

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    state: ClassVar = {
        "taken": (bool, (LANES,)),
        "x": (np.int8, (LANES,)),
        "to_right": (bool, (LANES,)),
        "gold": (bool, (LANES,)),
        "player_y": int,
        "player_x": int,
        "spawn_speed": int,
        "spawn_timer": int,
        "move_speed": int,
        "move_timer": int,
        "ramp_timer": int,
        "ramps": int,
        "last_action": int,
    }

    def reset(s, rng, p):
        s.taken[:] = False
        s.player_y = 5
        s.player_x = 5
        s.spawn_speed = s.spawn_timer = SPAWN_SPEED
        s.move_speed = s.move_timer = MOVE_SPEED
        s.ramp_timer = RAMP
        s.ramps = 0
        s.last_action = STAY

    def step(s, action, rng, p):
        action = stick(s, USEFUL[action] if p.use_minimal_action_set else action, rng, p)
        if s.spawn_timer == 0:
            spawn(s, rng)
            s.spawn_timer = s.spawn_speed
        if action == LEFT:
            s.player_x = max(s.player_x - 1, 0)
        elif action == RIGHT:
            s.player_x = min(s.player_x + 1, SIZE - 1)
        elif action == UP:
            s.player_y = max(s.player_y - 1, 1)
        elif action == DOWN:
            s.player_y = min(s.player_y + 1, LANES)
        reward, dead = meet(s)
        if s.move_timer == 0:
            s.move_timer = s.move_speed
            s.x[s.taken & s.to_right] += 1
            s.x[s.taken & ~s.to_right] -= 1
            s.taken &= (s.x >= 0) & (s.x < SIZE)
            more, hit = meet(s)
            reward += more
            dead |= hit
        s.spawn_timer -= 1
        s.move_timer -= 1
        if p.difficulty_ramping:
            ramp(s)
        return reward, dead

    def observe(s, obs, p):
        obs[s.player_y, s.player_x, PLAYER] = True
        for lane in np.flatnonzero(s.taken):
            x = s.x[lane]
            obs[lane + 1, x, GOLD if s.gold[lane] else ENEMY] = True
            behind = x - 1 if s.to_right[lane] else x + 1
            if 0 <= behind < SIZE:
                obs[lane + 1, behind, TRAIL] = True

    def render(s, p) -> np.ndarray:
        """The board in colour."""
        seen = np.zeros((SIZE, SIZE, 4), bool)
        MinAtarAsterix.observe(s, seen, p)
        return draw(seen[:, :, [TRAIL, GOLD, ENEMY, PLAYER]], tuple(LOOKS[plane] for plane in (2, 3, 1, 0)))


def spawn(s, rng):
    """Put gold or an enemy at the left or right end of a free lane, if there is one."""
    to_right = rng.random() < 0.5
    gold = rng.random() < 1 / 3
    free = np.flatnonzero(~s.taken)
    if len(free) == 0:
        return
    lane = rng.choice(free)
    s.taken[lane] = True
    s.x[lane] = 0 if to_right else SIZE - 1
    s.to_right[lane] = to_right
    s.gold[lane] = gold


def meet(s):
    """Take the gold where the player is; return the reward, and whether there is an enemy instead."""
    lane = s.player_y - 1
    if not s.taken[lane] or s.x[lane] != s.player_x:
        return 0.0, False
    if not s.gold[lane]:
        return 0.0, True
    s.taken[lane] = False
    return 1.0, False


def ramp(s):
    """Make the game harder from time to time, until it cannot become harder."""
    if s.spawn_speed == 1 and s.move_speed == 1:
        return
    if s.ramp_timer >= 0:
        s.ramp_timer -= 1
        return
    if s.move_speed > 1 and s.ramps % 2 == 1:
        s.move_speed -= 1
    if s.spawn_speed > 1:
        s.spawn_speed -= 1
    s.ramps += 1
    s.ramp_timer = RAMP
