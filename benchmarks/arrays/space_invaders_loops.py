"""SpaceInvaders in loops over elements, which is what the language of kernels began with."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel.rng import integers

SIZE = 10
LEFT, RIGHT, FIRE = 1, 2, 3
COOLDOWN, BOMB_EVERY, SLOWEST, FASTEST = 5, 8, 12, 6


@vecenv.kernel("Loops-SpaceInvaders-v0", max_episode_steps=1000)
class SpaceInvaders:
    observation_space = spaces.Box(0, 1, (6, SIZE, SIZE), np.uint8)
    action_space = spaces.Discrete(4)
    state = {
        "aliens": (np.uint8, (10, 10)),
        "shots": (np.uint8, (10, 10)),
        "bombs": (np.uint8, (10, 10)),
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
        s.x = integers(rng, 3, 7)
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
            s.shots[SIZE - 1, s.x] = True
            s.cooldown = COOLDOWN
        for y in range(SIZE - 1):
            for x in range(SIZE):
                s.shots[y, x] = s.shots[y + 1, x]
        for y in range(SIZE - 1, 0, -1):
            for x in range(SIZE):
                s.bombs[y, x] = s.bombs[y - 1, x]
        for x in range(SIZE):
            s.shots[SIZE - 1, x] = False
            s.bombs[0, x] = False
        dead = s.bombs[SIZE - 1, s.x] != 0
        hits = shoot(s)
        if s.move_timer == 0:
            s.move_timer = min(count(s), s.interval)
            dead = march(s) or dead
            hits += shoot(s)
        if s.bomb_timer == 0:
            s.bomb_timer = BOMB_EVERY
            drop_bomb(s, rng)
        if s.cooldown > 0:
            s.cooldown -= 1
        s.move_timer -= 1
        s.bomb_timer -= 1
        if count(s) == 0:
            s.interval = max(s.interval - 1, FASTEST)
            new_wave(s, rng)
        return float(hits), dead

    def observe(s, obs, p):
        obs[0, SIZE - 1, s.x] = 1
        side = 2 if s.direction < 0 else 3
        for y in range(SIZE):
            for x in range(SIZE):
                obs[1, y, x] = s.aliens[y, x]
                obs[side, y, x] = s.aliens[y, x]
                obs[4, y, x] = s.shots[y, x]
                obs[5, y, x] = s.bombs[y, x]


def new_wave(s, rng):
    left = integers(rng, 0, 5)
    for y in range(SIZE):
        for x in range(SIZE):
            s.aliens[y, x] = y < 4 and left <= x < left + 6
    s.direction = 1 if integers(rng, 0, 2) == 1 else -1
    s.move_timer = s.interval


def shoot(s):
    hits = 0
    for y in range(SIZE):
        for x in range(SIZE):
            if s.aliens[y, x] and s.shots[y, x]:
                s.aliens[y, x] = False
                s.shots[y, x] = False
                hits += 1
    return hits


def march(s):
    edge = 0 if s.direction < 0 else SIZE - 1
    at_edge = False
    for y in range(SIZE):
        at_edge = at_edge or s.aliens[y, edge] != 0
    if at_edge:
        s.direction = -s.direction
        for x in range(SIZE):
            if s.aliens[SIZE - 1, x]:
                return True
        for y in range(SIZE - 1, 0, -1):
            for x in range(SIZE):
                s.aliens[y, x] = s.aliens[y - 1, x]
        for x in range(SIZE):
            s.aliens[0, x] = False
    elif s.direction < 0:
        for y in range(SIZE):
            for x in range(SIZE - 1):
                s.aliens[y, x] = s.aliens[y, x + 1]
            s.aliens[y, SIZE - 1] = False
    else:
        for y in range(SIZE):
            for x in range(SIZE - 1, 0, -1):
                s.aliens[y, x] = s.aliens[y, x - 1]
            s.aliens[y, 0] = False
    return s.aliens[SIZE - 1, s.x] != 0


def lowest(s, column):
    for y in range(SIZE - 1, -1, -1):
        if s.aliens[y, column]:
            return y
    return -1


def drop_bomb(s, rng):
    columns = 0
    for x in range(SIZE):
        columns += lowest(s, x) >= 0
    if columns == 0:
        return
    chosen = integers(rng, 0, columns)
    for x in range(SIZE):
        y = lowest(s, x)
        if y >= 0:
            if chosen == 0:
                s.bombs[y, x] = True
                return
            chosen -= 1


def count(s):
    aliens = 0
    for y in range(SIZE):
        for x in range(SIZE):
            aliens += s.aliens[y, x]
    return aliens
