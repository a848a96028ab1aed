"""SpaceInvaders in natural NumPy: shoot a block of aliens that marches down."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv

SIZE = 10
STAY, LEFT, RIGHT, FIRE = 0, 1, 2, 3
COOLDOWN, BOMB_EVERY, SLOWEST, FASTEST = 5, 8, 12, 6


@vecenv.kernel("Arrays-SpaceInvaders-v0", max_episode_steps=1000)
class SpaceInvaders:
    """Planes of the cannon, aliens, aliens that go left, aliens that go right, shots and bombs."""

    observation_space = spaces.Box(0, 1, (6, SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(4)
    state = {
        "aliens": (bool, (SIZE, SIZE)),
        "shots": (bool, (SIZE, SIZE)),
        "bombs": (bool, (SIZE, SIZE)),
        "x": int,
        "direction": int,
        "interval": int,
        "move_timer": int,
        "bomb_timer": int,
        "cooldown": int,
    }

    def reset(s, rng, p):
        s.shots[:] = False
        s.bombs[:] = False
        s.x = rng.integers(3, 7)
        s.interval = SLOWEST
        s.bomb_timer = BOMB_EVERY
        s.cooldown = 0
        new_wave(s, rng)

    def step(s, action, rng, p):
        if action == LEFT:
            s.x = max(s.x - 1, 0)
        elif action == RIGHT:
            s.x = min(s.x + 1, SIZE - 1)
        elif action == FIRE and s.cooldown == 0:
            s.shots[-1, s.x] = True
            s.cooldown = COOLDOWN
        s.shots[:-1] = s.shots[1:]
        s.shots[-1] = False
        s.bombs = np.roll(s.bombs, 1, axis=0)
        s.bombs[0] = False
        dead = s.bombs[-1, s.x]
        reward = shoot(s)
        if s.move_timer == 0:
            s.move_timer = min(np.count_nonzero(s.aliens), s.interval)
            dead |= march(s)
            reward += shoot(s)
        if s.bomb_timer == 0:
            s.bomb_timer = BOMB_EVERY
            drop_bomb(s, rng)
        s.cooldown -= s.cooldown > 0
        s.move_timer -= 1
        s.bomb_timer -= 1
        if not s.aliens.any():
            s.interval = max(s.interval - 1, FASTEST)
            new_wave(s, rng)
        return reward, dead

    def observe(s, obs, p):
        obs[0, -1, s.x] = 1
        obs[1] = s.aliens
        obs[2 if s.direction < 0 else 3] = s.aliens
        obs[4] = s.shots
        obs[5] = s.bombs


def new_wave(s, rng):
    left = rng.integers(0, 5)
    s.aliens[:] = False
    s.aliens[:4, left : left + 6] = True
    s.direction = rng.choice((-1, 1))
    s.move_timer = s.interval


def shoot(s):
    """Remove aliens and shots that meet; return how many."""
    hit = s.aliens & s.shots
    s.aliens[hit] = False
    s.shots &= ~hit
    return float(hit.sum())


def march(s):
    """Move the aliens aside, or down if they are at an edge; return whether they reach the cannon or the ground."""
    edge = 0 if s.direction < 0 else SIZE - 1
    if s.aliens[:, edge].any():
        s.direction = -s.direction
        if s.aliens[-1].any():
            return True
        s.aliens[1:] = s.aliens[:-1]
        s.aliens[0] = False
    else:
        s.aliens = np.roll(s.aliens, s.direction, axis=1)
    return s.aliens[-1, s.x]


def drop_bomb(s, rng):
    """The lowest alien of a random column drops a bomb, if there are any aliens."""
    columns = np.flatnonzero(s.aliens.any(axis=0))
    if len(columns) == 0:
        return
    column = rng.choice(columns)
    row = np.flatnonzero(s.aliens[:, column]).max()
    s.bombs[row, column] = True
