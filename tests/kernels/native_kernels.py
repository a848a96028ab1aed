"""Kernels for the tests of native code: each goes into one corner of the language."""

import enum
import math

import numpy as np
from gymnasium import spaces

import vecenv
from vecenv.kernel import rng as numbers
from vecenv.kernel.rng import choice, integers, normal, permutation, random, shuffle, uniform

TABLE = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
NAMES = (2, 7, 1)
WEIGHTS = np.array([0.2, 0.5, 0.3])
EVERYTHING = spaces.Box(-np.inf, np.inf, (12,), np.float64)


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 1


class Settings:
    bonus = 0.25


@vecenv.kernel("Walk-v0", max_episode_steps=50)
class Walk:
    observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(2)
    state = {"x": float}
    info = {"distance": float}

    class Params:
        speed = 0.1
        spread = 0.05

    def reset(s, rng, p):
        s.x = uniform(rng, -p.spread, p.spread)
        s.distance = 0.0

    def step(s, action, rng, p):
        s.x += p.speed if action else -p.speed
        s.distance += p.speed
        return -abs(s.x), abs(s.x) > 1.0

    def observe(s, obs, p):
        obs[0] = s.x

    def render(s, p):
        frame = np.zeros((4, 32, 3), np.uint8)
        frame[:, int(16 + 15 * max(-1.0, min(1.0, s.x)))] = 255
        return frame


@vecenv.kernel("Draws-v0", max_episode_steps=7)
class Draws:
    """Every function of rng, in both spellings."""

    observation_space, action_space = EVERYTHING, spaces.Discrete(2)
    state = {"drawn": (np.float64, 12), "order": (np.int64, 6)}

    def reset(s, rng, p):
        s.drawn[:] = 0.0
        s.drawn[0] = rng.random()

    def step(s, action, rng, p):
        s.drawn[0] = random(rng)
        s.drawn[1] = uniform(rng, -3.0, 5.0)
        s.drawn[2] = integers(rng, 10)
        s.drawn[3] = integers(rng, -5, 2**40)
        s.drawn[4] = normal(rng, 1.0, 2.0)
        s.drawn[5] = choice(rng, 13)
        s.drawn[6] = choice(rng, TABLE)
        s.drawn[7] = choice(rng, 3, WEIGHTS)
        permutation(rng, s.order)
        s.drawn[8] = s.order[0] + 10 * s.order[5]
        shuffle(rng, s.order)
        s.drawn[9] = s.order[1]
        s.drawn[10] = rng.normal()
        s.drawn[11] = rng.integers(0, 2)
        return rng.uniform(), rng.random() < 0.05

    def observe(s, obs, p):
        obs[:] = s.drawn


@vecenv.kernel("Distributions-v0", max_episode_steps=40)
class Distributions:
    """Draws of every distribution, and of arrays."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (16,), np.float64), spaces.Discrete(2)
    state = {
        "drawn": (np.float64, 16),
        "order": (np.int64, 6),
        "hand": (np.int8, 4),
        "board": (np.float32, (3, 2)),
        "rain": (np.int16, (2, 3)),
        "noise": (np.float64, 3),
    }

    class Params:
        lam = 11.5
        trials = 90
        chance = 0.4
        weights = np.array([0.1, 0.0, 0.2, 0.3, 0.15, 0.25])

    def reset(s, rng, p):
        s.drawn[:] = rng.standard_normal()
        permutation(rng, s.order)
        numbers.fill_uniform(rng, s.board)
        s.hand[:] = 0

    def step(s, action, rng, p):
        s.drawn[0] = rng.standard_normal() + numbers.standard_exponential(rng)
        s.drawn[1] = rng.exponential(p.lam)
        s.drawn[2] = rng.poisson(p.lam) + rng.poisson(3.5) + rng.poisson()
        s.drawn[3] = rng.binomial(p.trials, p.chance) + rng.binomial(9, 0.8) + numbers.binomial(rng, n=200, p=0.7)
        s.drawn[4] = rng.geometric(p.chance) + rng.geometric(0.01)
        s.drawn[5] = (
            rng.integers(1, 6, endpoint=True) + rng.integers(6, endpoint=True) + integers(rng, 5, endpoint=False)
        )
        s.drawn[6] = rng.choice((1, 2.5, -3)) + rng.choice([3, 4, 5]) + choice(rng, NAMES)
        s.drawn[7] = rng.choice((s.drawn[0], action), p=(0.25, 0.75)) + rng.choice(p.weights, p=[0.5, 0, 0, 0, 0, 0.5])
        s.drawn[8] = 3.0 if rng.choice((True, False)) else 4.0
        rng.shuffle(s.board)
        numbers.sample(rng, 100, s.hand)
        s.drawn[9] = s.hand[0] + 100 * s.hand[3] + s.board[0, 1]
        numbers.sample(rng, 6, s.hand, p.weights)
        s.drawn[10] = s.hand[1] + 10 * s.hand[2]
        numbers.multinomial(rng, p.trials, (0.2, 0.3, 0, 0.5), s.hand)
        s.drawn[11] = s.hand[0] + 100 * s.hand[3]
        numbers.multinomial(rng, 12, p.weights, out=s.order)
        numbers.fill_poisson(rng, s.rain, lam=2.0)
        numbers.fill_integers(rng, s.rain[1], 3, 5, endpoint=True)
        s.drawn[12] = s.rain[0, 0] + 10 * s.rain[0, 2] + 100 * s.rain[1, 1] + 1000 * s.order[5]
        rng.random(out=s.noise)
        rng.standard_normal(out=s.noise[1:])
        numbers.fill_normal(rng, s.board, scale=p.chance)
        s.drawn[13] = s.noise[0] + s.noise[2] + s.board[2, 1]
        numbers.fill_exponential(rng, s.board[:, 0])
        numbers.fill_geometric(rng, s.hand[1:3], 0.3)
        numbers.fill_choice(rng, s.hand, [7, 8, 9])
        numbers.fill_binomial(rng, s.order, 50, 0.9)
        s.drawn[14] = s.board[1, 0] + s.board[1, 1] + s.hand[0] + 10 * s.hand[3] + 1000 * s.order[2]
        numbers.fill_standard_normal(rng, s.noise)
        numbers.standard_exponential(rng, out=s.noise[:1])
        s.drawn[15] = s.noise[0] + s.noise[1]
        return rng.uniform(), rng.random() < 0.05

    def observe(s, obs, p):
        obs[:] = s.drawn


def wander(s, rng, p):
    """A helper that gets everything whole and calls another."""
    s.x += step_of(p) * uniform(rng, -1.0, 1.0)
    s.board[s.turn % 3, 1] += 1
    return s.x, s.turn


def step_of(p):
    return p.size * 2.0


def tally(board, out):
    for row in range(board.shape[0]):
        total = 0
        for column in range(board.shape[1]):
            if board[row, column] < 0:
                continue
            total += board[row, column]
        out[row] = total


@vecenv.kernel("Helpers-v0", max_episode_steps=30)
class Helpers:
    observation_space, action_space = spaces.Box(-np.inf, np.inf, (5,), np.float32), spaces.Discrete(3, start=-1)
    state = {"x": float, "turn": int, "board": (np.int8, (3, 2)), "totals": (np.float64, (3,))}

    class Params:
        size = 0.5
        limits = np.array([2.0, 3.0])

    shapes = {"limits": (None,)}

    def reset(s, rng, p):
        s.x, s.turn = 0.0, 0
        s.board[:, :] = 0
        wander(s, rng, p)

    def step(s, action, rng, p):
        before = s.x
        x, turn = wander(s, rng, p)
        s.turn += 1
        s.x += action * TABLE[s.turn % 5] + NAMES[s.turn % 3] * Settings.bonus
        if action == Side.RIGHT:
            s.x -= p.limits[0]
        tally(s.board, s.totals)
        return x - before + turn, abs(s.x) > 10 * p.limits[1]

    def observe(s, obs, p):
        obs[0], obs[1] = s.x, s.turn
        obs[2:] = s.totals


@vecenv.kernel("Torture-v0", max_episode_steps=40)
class Torture:
    """Arithmetic and statements that Python and native code might do differently."""

    observation_space, action_space = EVERYTHING, spaces.Discrete(4)
    state = {
        "a": float,
        "b": np.float32,
        "n": int,
        "small": np.int8,
        "flag": bool,
        "singles": (np.float32, (4,)),
        "bytes": (np.uint8, (4,)),
    }

    def reset(s, rng, p):
        s.a = uniform(rng, -2.0, 2.0)
        s.b = s.a / 3
        s.n = integers(rng, -20, 20)
        s.small = s.n
        s.flag = s.n > 0
        if s.flag:
            s.singles[:] = s.b
            return
        s.singles[:] = 0.1

    def step(s, action, rng, p):
        s.a = s.a * 1.1 + s.b * s.b - s.b**2 + abs(s.a) ** 0.5 + s.a**3 / 1e3
        s.b += 0.1
        s.n = s.n * 3 // 2 - (s.n % 7) + action
        s.n = max(-1000, min(1000, s.n))
        s.small = s.n % 100
        s.singles[action] += s.b * 0.3
        s.singles[integers(rng, 4)] *= 1.5
        s.bytes[action] = (s.n * 7) % 256
        total = 0
        for index in range(4):
            if index == action:
                continue
            if total > 50:
                break
            total += s.bytes[index] + 200
        while total > 300:
            total -= 37
        s.flag = not s.flag and (action == 1 or s.a > 0.0)
        low, high = min(s.a, s.b), max(s.a, s.b, 0.5)
        s.a = high if -1.0 < low <= high < 4.0 else low % 3.0 + math.sin(high) + math.atan2(low, high)
        reward = round(s.a) + total / 7 + divmod(s.n, 3)[1] + (1 if s.flag else 0) + int(s.a) + math.floor(s.b)
        return reward, s.n == 1000, total % 11 == 0

    def observe(s, obs, p):
        if s.n % 2:
            obs[0] = s.a
            return
        obs[1], obs[2], obs[3] = s.b, s.n, s.small
        obs[4] = s.flag
        for index in range(4):
            obs[5 + index] = s.singles[index] * s.singles[3 - index]
        obs[9] = s.bytes[0] * s.bytes[1] + 1
        obs[10] = -s.small // 3
        obs[11] = math.exp(-abs(s.a)) + math.log1p(abs(s.b))


@vecenv.kernel("Nested-v0", max_episode_steps=9)
class Nested:
    """Every kind of space, nested."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (3, 2), np.uint8),
            "pair": spaces.Tuple((spaces.Discrete(50, start=-5), spaces.Box(-9, 9, (), np.float32))),
            "inner": spaces.Dict({"bits": spaces.MultiBinary(3), "many": spaces.MultiDiscrete([4, 5])}),
        }
    )
    action_space = spaces.Dict(
        {
            "go": spaces.Discrete(3, start=1),
            "push": spaces.Box(-1, 1, (2,), np.float32),
            "more": spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2))),
        }
    )
    state = {"n": int, "x": float}

    def reset(s, rng, p):
        s.n, s.x = 0, random(rng)

    def step(s, action, rng, p):
        s.n += action["go"] + action["more"][0][1] + action["more"][1][0]
        s.x += action["push"][0] * 0.1 - action["push"][1]
        return s.x, s.n > 20

    def observe(s, obs, p):
        obs["image"][s.n % 3, 1] = 7
        obs["pair"][0] = s.n
        obs["pair"][1] = s.x
        obs["inner"]["bits"][s.n % 3] = 1
        obs["inner"]["many"][0] = s.n % 4


@vecenv.kernel("Push-v0", max_episode_steps=20)
class Push:
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    state = {"x": float, "y": float}

    def reset(s, rng, p):
        s.x, s.y = random(rng), random(rng)

    def step(s, action, rng, p):
        s.x += action[0] * 0.1
        s.y += action[1] * 0.3
        return s.x * s.y, s.x + s.y > 3.0

    def observe(s, obs, p):
        obs[0], obs[1] = s.x, s.y


@vecenv.kernel("Uneven-v0", max_episode_steps=20)
class Uneven:
    """Some envs take a thousand times longer than others."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Discrete(2)
    state = {"x": float}

    class Params:
        turns = 1

    def reset(s, rng, p):
        s.x = random(rng)

    def step(s, action, rng, p):
        for _ in range(p.turns):
            s.x = math.sin(s.x) + 0.1 * action
        return s.x, random(rng) < 0.02

    def observe(s, obs, p):
        obs[0] = s.x


ALL = (Walk, Draws, Distributions, Helpers, Torture, Nested, Push, Uneven)
