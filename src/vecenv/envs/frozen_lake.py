"""FrozenLake: cross slippery ice without falling into a hole. Bit-equal to Gymnasium's."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium.envs.toy_text.frozen_lake import MAPS, generate_random_map
from gymnasium.spaces import Discrete

from vecenv.envs._numpy import sample_of_three
from vecenv.errors import ConfigError
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import random

LEFT, DOWN, RIGHT, UP = 0, 1, 2, 3
START, HOLE, GOAL = ord("S"), ord("H"), ord("G")


def letters(desc):
    """A map as codes of its letters; with one more level of nesting, one map per env."""
    try:
        return np.asarray(desc, dtype="c").view(np.uint8)
    except ValueError:
        raise ConfigError(f"desc must be lines of equal length; got {desc!r:.60}") from None


def first_tile(desc, rng):
    """The number of a random start tile; 0, as in Gymnasium, if rounding puts the draw above all probabilities."""
    drawn = random(rng)
    starts = 0
    for row in range(desc.shape[0]):
        for column in range(desc.shape[1]):
            starts += desc[row, column] == START
    reached = 0.0
    for row in range(desc.shape[0]):
        for column in range(desc.shape[1]):
            if desc[row, column] == START:
                reached += 1.0 / starts
                if reached > drawn:
                    return row * desc.shape[1] + column
    return 0


@kernel("FrozenLake-v1", max_episode_steps=100, kwargs={"map_name": "4x4"})
@kernel("FrozenLake8x8-v1", max_episode_steps=200, kwargs={"map_name": "8x8"})
class FrozenLake:
    """The tile that the player is on."""

    def observation_space(p):
        """One number per tile."""
        return Discrete(p.desc.shape[0] * p.desc.shape[1])

    action_space = Discrete(4)
    state: ClassVar = {"row": int, "column": int}
    info: ClassVar = {"prob": float}

    class Params:
        """The map as codes of letters; `reward_schedule` is for goal, hole and ice."""

        desc = letters(MAPS["4x4"])
        is_slippery = True
        success_rate = 1.0 / 3.0
        reward_schedule = np.array([1.0, 0.0, 0.0])

    bounds: ClassVar = {"success_rate": (0.0, 1.0)}
    shapes: ClassVar = {"desc": (None, None)}

    def configure(desc=None, map_name="4x4", is_slippery=True, success_rate=1.0 / 3.0, reward_schedule=(1, 0, 0)):
        if desc is None:
            desc = generate_random_map() if map_name is None else MAPS[map_name]
        if np.shape(reward_schedule)[-1:] != (3,):
            rule = "reward_schedule must be three numbers, for goal, hole and ice"
            raise ConfigError(f"{rule}; got {reward_schedule!r:.60}")
        return {
            "desc": letters(desc),
            "is_slippery": is_slippery,
            "success_rate": success_rate,
            "reward_schedule": reward_schedule,
        }

    def reset(s, rng, p):
        """On a start tile."""
        tile = first_tile(p.desc, rng)
        s.row = tile // p.desc.shape[1]
        s.column = tile % p.desc.shape[1]
        s.prob = 1.0

    def step(s, action, rng, p):
        """Walk left (0), down (1), right (2) or up (3), or slip to one of its sides."""
        here = p.desc[s.row, s.column]
        over = (here == GOAL) | (here == HOLE)
        slips = p.is_slippery and not over
        fail_rate = (1.0 - p.success_rate) / 2.0
        if slips:
            turn = sample_of_three(rng, fail_rate, p.success_rate, fail_rate) - 1
            s.prob = p.success_rate if turn == 0 else fail_rate
        else:
            random(rng)
            turn = 0
            s.prob = 1.0
        if over:
            return 0.0, True
        way = (action + turn) % 4
        if way == LEFT:
            s.column = max(s.column - 1, 0)
        elif way == DOWN:
            s.row = min(s.row + 1, p.desc.shape[0] - 1)
        elif way == RIGHT:
            s.column = min(s.column + 1, p.desc.shape[1] - 1)
        else:
            s.row = max(s.row - 1, 0)
        there = p.desc[s.row, s.column]
        reward = p.reward_schedule[0 if there == GOAL else 1 if there == HOLE else 2]
        return reward, (there == GOAL) | (there == HOLE)

    def observe(s, obs, p):
        """The number of the tile."""
        obs[0] = s.row * p.desc.shape[1] + s.column
