"""PettingZoo's pursuit_v5 with its default arguments, as a kernel: the same bits from the same seed and actions.

PettingZoo's own takes milliseconds of Python for a step, so that learning it takes a day of processor time; this takes
microseconds. `python benchmarks/sisl_pursuit.py` compares both (needs pettingzoo[sisl]).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

import vecenv

SIZE = 16
COUNT, EVADERS = 8, 30
SIGHT = 3
VIEW = 2 * SIGHT + 1
RIGHT_OF, UP_OF = (-1, 1, 0, 0, 0), (0, 0, 1, -1, 0)
"""Where a move leads: left, right, up, down, stay."""
WALL = np.array([[0.3 < x / SIZE < 0.7 and 0.2 < y / SIZE < 0.8 for y in range(SIZE)] for x in range(SIZE)])
TAG, CATCH, URGENCY = 0.01, 5.0, -0.1


@vecenv.kernel("SislPursuit-v0", max_episode_steps=500)
class SislPursuit:
    """Eight pursuers surround thirty evaders, which move at random, in a world with a wall in its middle."""

    class Params:
        shared_reward = True
        """Whether all pursuers get the mean of their rewards."""

    agents: ClassVar = [f"pursuer_{number}" for number in range(COUNT)]
    observation_space = spaces.Box(0.0, float(EVADERS), (VIEW, VIEW, 3), np.float32)
    action_space = spaces.Discrete(5)
    state: ClassVar = {
        "hunter": (np.int16, (COUNT, 2)),
        "prey": (np.int16, (EVADERS, 2)),
        "left": int,
        "hunters": (np.int16, (SIZE, SIZE)),
        "evaders": (np.int16, (SIZE, SIZE)),
    }

    def reset(s, rng, p):
        rng.random()  # where a window begins in which agents start; by default it is the whole world
        rng.random()
        _place(s.hunter, COUNT, rng)
        _place(s.prey, EVADERS, rng)
        s.left = EVADERS
        _count(s.hunter, COUNT, s.hunters)
        _count(s.prey, s.left, s.evaders)

    def step(s, actions, reward, done, rng, p):
        own = np.zeros(COUNT)
        for mover in range(COUNT):
            _move(s.hunter[mover], actions[mover])
            for agent in range(COUNT):
                own[agent] = TAG * _near(s, agent) / COUNT
            if mover == COUNT - 1:
                _count(s.hunter, COUNT, s.hunters)
                _catch(s, own)
                for prey in range(s.left):
                    _move(s.prey[prey], rng.integers(5))
                for agent in range(COUNT):
                    own[agent] += URGENCY
            shared = np.mean(own)
            for agent in range(COUNT):
                reward[agent] += shared if p.shared_reward else own[agent]
        _count(s.prey, s.left, s.evaders)
        if s.left == 0:
            done[:] = True

    def observe(s, agent, obs, p):
        left, low = s.hunter[agent, 0] - SIGHT, s.hunter[agent, 1] - SIGHT
        for y in range(VIEW):
            for x in range(VIEW):
                at_x, at_y = left + x, low + y
                if 0 <= at_x < SIZE and 0 <= at_y < SIZE:
                    obs[y, x, 0] = WALL[at_x, at_y]
                    obs[y, x, 1] = s.hunters[at_x, at_y]
                    obs[y, x, 2] = s.evaders[at_x, at_y]
                else:
                    obs[y, x, 0] = 1.0


def _place(places, count, rng):
    """Put agents on free cells that are not next to each other."""
    taken = np.zeros((SIZE + 2, SIZE + 2), np.bool_)
    for agent in range(count):
        x, y = rng.integers(SIZE), rng.integers(SIZE)
        while WALL[x, y] or taken[x + 1, y + 1]:
            x, y = rng.integers(SIZE), rng.integers(SIZE)
        taken[x + 1, y + 1] = taken[x + 2, y + 1] = taken[x, y + 1] = True
        taken[x + 1, y + 2] = taken[x + 1, y] = True
        places[agent, 0] = x
        places[agent, 1] = y


def _count(places, count, cells):
    """Write how many agents are on each cell."""
    cells[:] = 0
    for agent in range(count):
        cells[places[agent, 0], places[agent, 1]] += 1


def _move(place, action):
    """Move one cell, unless something is in the way."""
    x, y = place[0] + RIGHT_OF[action], place[1] + UP_OF[action]
    if 0 <= x < SIZE and 0 <= y < SIZE and not WALL[x, y]:
        place[0] = x
        place[1] = y


def _near(s, agent):
    """Evaders on the four cells around a pursuer; at the edge of the world its own cell takes the place of one."""
    x, y = s.hunter[agent, 0], s.hunter[agent, 1]
    found = s.evaders[max(x - 1, 0), y] + s.evaders[min(x + 1, SIZE - 1), y]
    return found + s.evaders[x, min(y + 1, SIZE - 1)] + s.evaders[x, max(y - 1, 0)]


def _catch(s, own):
    """Remove evaders that are surrounded: pursuers or walls are on all cells around. Who did it is rewarded once."""
    catching = np.zeros(COUNT, np.bool_)
    kept = 0
    for prey in range(s.left):
        x, y = s.prey[prey, 0], s.prey[prey, 1]
        free = False
        for side in range(4):
            to_x, to_y = x + RIGHT_OF[side], y + UP_OF[side]
            inside = 0 <= to_x < SIZE and 0 <= to_y < SIZE
            if inside and not WALL[to_x, to_y] and s.hunters[to_x, to_y] == 0:
                free = True
        if free:
            s.prey[kept, 0] = x
            s.prey[kept, 1] = y
            kept += 1
        else:
            for agent in range(COUNT):
                if abs(s.hunter[agent, 0] - x) + abs(s.hunter[agent, 1] - y) == 1:
                    catching[agent] = True
    s.left = kept
    for agent in range(COUNT):
        if catching[agent]:
            own[agent] += CATCH


def compare(seed: int, shared: bool, most: int = 500) -> tuple[int, int]:
    """Step both with the same actions, most of them towards evaders; return the numbers of steps and of caught evaders.

    Raises:
        AssertionError: they differ in a bit.
    """
    from pettingzoo.sisl.pursuit.pursuit import parallel_env

    theirs, generator, steps = parallel_env(shared_reward=shared), np.random.default_rng(seed), 0
    with vecenv.make(SislPursuit, 1, engine="compiled", autoreset="disabled", shared_reward=shared) as ours:
        expected, _ = theirs.reset(seed=seed)
        obs, _ = ours.reset(seed=[seed])
        np.testing.assert_array_equal(obs[0], np.stack(list(expected.values())))
        while theirs.agents and steps < most:
            actions = {name: _chase(seen, generator) for name, seen in expected.items()}
            expected, rewards, terminated, truncated, _ = theirs.step(actions)
            step = ours.step([actions])
            np.testing.assert_array_equal(step.obs[0], np.stack(list(expected.values())))
            np.testing.assert_array_equal(step.reward[0], np.array(list(rewards.values())))
            assert step.terminated[0].tolist() == list(terminated.values())
            assert step.truncated[0].tolist() == list(truncated.values())
            steps += 1
    left = theirs.unwrapped.env.evader_layer.n_agents()
    return steps, EVADERS - left


def _chase(seen: np.ndarray, generator: np.random.Generator) -> int:
    """A move towards an evader that is seen; sometimes any move."""
    up, right = np.nonzero(seen[:, :, 2])
    if not len(up) or generator.random() < 0.2:
        return int(generator.integers(5))
    nearest = np.argmin(np.abs(up - SIGHT) + np.abs(right - SIGHT))
    up, right = up[nearest] - SIGHT, right[nearest] - SIGHT
    if abs(right) > abs(up):
        return 1 if right > 0 else 0
    return 2 if up > 0 else 3


if __name__ == "__main__":
    for chosen in (True, False):
        print("{} steps are equal, bit by bit; {} evaders were caught".format(*compare(0, chosen)))
