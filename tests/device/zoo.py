"""A kernel that uses the whole language, to compare backends by."""

from __future__ import annotations

import math

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

import vecenv
from vecenv.kernel.rng import choice, fill_normal, integers, normal, permutation, random, sample, shuffle, uniform

SHIFTS = (-3, 5, -7, 2)
PAIRS = ((1, 0.5), (2, -1.5), (3, 2.5))
TABLE = np.arange(12).reshape(3, 4) * 1.5
WEIGHTS = np.array([2, -4, 9])
CHANCES = (0.2, 0.3, 0.5)


def pair(x, k):
    if k < 0:
        return x * 0.5, k + 1
    return x, k


def find(s, wanted):
    for k in range(len(s.order)):
        if s.order[k] == wanted:
            break
    else:
        return -1
    return k


def bump(s):
    s.calls += 1
    return s.calls


def scaled(values, by=2.0):
    return values * by


@vecenv.kernel("DeviceZoo-v0", max_episode_steps=30)
class Zoo:
    observation_space = Dict({"grid": Box(-1e9, 1e9, (3, 4), np.float32), "place": Discrete(50)})
    action_space = Discrete(5)
    state = {
        "x": float, "k": int, "flag": bool, "narrow": np.float32, "small": np.int8, "calls": int, "new": int,
        "order": (np.int32, (7,)), "grid": (float, (3, 4)), "line": (float, (9,)), "picks": (np.int16, (3,)),
    }  # fmt: skip
    info = {"total": float}

    class Params:
        gain = 0.3
        offsets = (1.0, -2.0, 0.25)

    def reset(s, rng, p):
        s.x = normal(rng, 0.5, 2.0)
        s.k = integers(rng, -20, 20)
        s.flag = random(rng) < 0.5
        s.small = integers(rng, 100)
        s.calls = 0
        s.new = (
            rng.poisson(4.0) + rng.poisson(40.0) + rng.binomial(20, 0.4) + rng.geometric(0.2) + rng.binomial(500, 0.4)
        )
        permutation(rng, s.order)
        s.grid[:, :] = 0.0
        fill_normal(rng, s.line)
        sample(rng, 12, s.picks)
        s.total = rng.exponential(2.0) + rng.standard_exponential() + choice(rng, 3, p=CHANCES)

    def step(s, action, rng, p):
        before = s.k
        s.k = (s.k * 3 + SHIFTS[action % 4]) % -17
        q, r = divmod(before - 11, 4)
        s.small = (q * 5 + r) % 90 - 45
        s.x = s.x % -2.5 + before // 3 + (s.x // 0.7) * 1e-3
        a, b = pair(s.x, s.k)
        s.x = a - uniform(rng) * uniform(rng, 1.0, 2.0) + (uniform(rng) if s.flag else normal(rng))
        s.total += s.calls * 10 + bump(s)  # what is left of a call is read before it
        if (s.x > 0.0 and random(rng) > 0.5) or bump(s) % 3 == 0:
            s.flag = not s.flag
        s.narrow = s.x * p.gain
        shuffle(rng, s.order)
        at = find(s, action)
        count = 0
        while True:
            count += 1
            if count % 2 == 0:
                continue
            if count > at + 3 or not -8 <= s.k + count < 6:
                break
            s.x += TABLE[count % 3, -1 - count % 4] * 1e-2
        total = 0
        for place, value in enumerate(s.line[::-2]):
            if place in (1, 3):
                total = total + value
        for shade, (whole, part) in zip(s.picks, PAIRS):
            total += shade * whole + part
        s.total += total
        s.line[1:6] = s.line[0:5]
        s.line[0] = s.x
        s.grid[1:, action % 4] = s.x**2 + abs(s.k) ** 2
        s.grid[-1, :] = s.line[2:6]
        s.grid[0, b % 4] += math.sin(s.x) * math.exp(-abs(s.x)) + math.atan2(s.x, 0.3) + p.offsets[count % 3]
        s.grid[1] = scaled(s.grid[1] + s.grid[0], 0.5) - np.clip(s.grid[2], -1.0, 1.0).mean()
        y = s.grid[0]
        low = min(y[0], y[1], s.x)
        high = max(y[2], -s.x, float(s.k))
        s.new = (s.new * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFF
        s.total += round(low) + int(high) + math.floor(s.x) - math.ceil(s.narrow) + choice(rng, WEIGHTS)
        s.total += math.hypot(s.x, s.total) + (s.new >> 5) % 7 + (s.small << 2) + np.sqrt(abs(s.x))
        s.total = s.total % 1e6
        reward = -1 if s.flag else 0.5 * s.narrow
        return reward, abs(s.x) > 30.0 or s.calls > 60, count > 9

    def observe(s, obs, p):
        obs["grid"][:, :] = s.grid
        obs["grid"][0, 0] = s.narrow
        obs["place"] = s.k % 50
