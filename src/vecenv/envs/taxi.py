"""Taxi: pick up a passenger and bring them to their destination. Bit-equal to Gymnasium's.

The id is Gymnasium's: Taxi-v3 up to 1.2, Taxi-v4 from 1.3 on, where rain has other rules.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium.envs.registration import registry
from gymnasium.spaces import Discrete

from vecenv.envs._numpy import sample_of_three
from vecenv.kernel.language.define import kernel
from vecenv.kernel.rng import integers, random

ID = "Taxi-v3" if "Taxi-v3" in registry else "Taxi-v4"
SIZE = 5
MAP = ("R: | : :G", " : | : : ", " : : : : ", " | : | : ", "Y| : |B: ")
STOPS = np.array([0, 4, 20, 23])
ABOARD = 4
STOP_AT = np.full(SIZE * SIZE, -1)
STOP_AT[STOPS] = np.arange(4)

MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))
SIDES_V3 = (((0, -1), (0, 1)), ((0, -1), (0, 1)), ((1, 0), (-1, 0)), ((1, 0), (-1, 0)))
SIDES_V4 = (((0, 1), (0, -1)), ((0, -1), (0, 1)), ((-1, 0), (1, 0)), ((1, 0), (-1, 0)))
DRY, RAIN_V3, RAIN_V4 = 0, 1, 2


def is_open(row, gap):
    """Whether the mark left of column `gap` of a row is a ":"; false for the walls around the map."""
    return 0 < gap < SIZE and MAP[row][2 * gap - 1] == ":"


def moved(row, column, move):
    """Where a move leads if no wall is in the way, within the map."""
    return max(0, min(row + move[0], SIZE - 1)), max(0, min(column + move[1], SIZE - 1))


def ahead(row, column, move):
    """Where a move leads, walls included."""
    blocked = move[1] != 0 and not is_open(row, column + max(move[1], 0))
    return (row, column) if blocked else moved(row, column, move)


def aside(row, column, move, mark):
    """Where Gymnasium 1.2 drifts to: it checks for a wall at the new place, to its left (`mark` 0) or right (1)."""
    new_row, new_column = moved(row, column, move)
    return (new_row, new_column) if is_open(new_row, new_column + mark) else (row, column)


def outcomes(rain, row, column, action):
    """Where an action leads, and where drifting to its left and right leads."""
    if action >= len(MOVES):
        return ((row, column),) * 3
    straight = ahead(row, column, MOVES[action])
    stuck = straight == (row, column)
    if rain == RAIN_V3 and (not stuck or action < 2):
        left, right = SIDES_V3[action]
        return straight, aside(row, column, left, 1), aside(row, column, right, 0)
    if rain == RAIN_V4 and not stuck:
        return straight, *(ahead(row, column, side) for side in SIDES_V4[action])
    return ((row, column),) * 3 if stuck else (straight,) * 3


PLACES = np.array(
    [
        [
            [
                [row * SIZE + column for row, column in outcomes(rain, *divmod(place, SIZE), action)]
                for action in range(6)
            ]
            for place in range(SIZE * SIZE)
        ]
        for rain in (DRY, RAIN_V3, RAIN_V4)
    ]
)
"""The place after [rain, place, action, outcome]."""

STARTS = np.array([state for state in range(500) if state // 4 % 5 not in (ABOARD, state % 4)] + [0])
"""The states in which an episode can begin, and Gymnasium's choice if rounding puts a draw above all of them."""
START_LIMITS = np.cumsum(np.full(300, 1.0 / 300.0))


def configure_v3(is_rainy=False, fickle_passenger=False):
    """The arguments of Gymnasium's env up to 1.2."""
    return {
        "rain": np.where(is_rainy, RAIN_V3, DRY),
        "straight_probability": 0.8,
        "side_probability": 0.1,
        "fickle_passenger": fickle_passenger,
    }


def configure_v4(is_rainy=False, fickle_passenger=False, rainy_probability=0.8, fickle_probability=0.3):
    """The arguments of Gymnasium's env from 1.3 on."""
    return {
        "rain": np.where(is_rainy, RAIN_V4, DRY),
        "straight_probability": rainy_probability,
        "side_probability": (1.0 - np.asarray(rainy_probability)) / 2.0,
        "fickle_passenger": fickle_passenger,
        "fickle_probability": fickle_probability,
    }


@kernel(ID, max_episode_steps=200)
class Taxi:
    """Place of the taxi, stop of the passenger or "aboard", and the stop of the destination.

    `fickle`: the passenger changes the destination as soon as they are aboard and the taxi moves.
    """

    observation_space = Discrete(500)
    action_space = Discrete(6)
    state: ClassVar = {"place": int, "passenger": int, "destination": int, "fickle": bool}
    info: ClassVar = {"prob": float}

    class Params:
        """Probabilities of drifting in the rain and of a change of destination."""

        rain = DRY
        straight_probability = 1.0
        side_probability = 0.0
        fickle_passenger = False
        fickle_probability = 0.3

    bounds: ClassVar = {
        "rain": (DRY, RAIN_V4),
        "straight_probability": (0.0, 1.0),
        "side_probability": (0.0, 1.0),
        "fickle_probability": (0.0, 1.0),
    }

    configure = configure_v3 if ID == "Taxi-v3" else configure_v4

    def reset(s, rng, p):
        """Anywhere, with a passenger who waits at one stop and wants to go to another."""
        drawn = random(rng)
        start = int(drawn * 300)
        while start < 300 and START_LIMITS[start] <= drawn:
            start += 1
        while start > 0 and START_LIMITS[start - 1] > drawn:
            start -= 1
        first = STARTS[start]
        s.place = first // 20
        s.passenger = first // 4 % 5
        s.destination = first % 4
        s.fickle = False
        if p.fickle_passenger:
            s.fickle = random(rng) < p.fickle_probability
        s.prob = 1.0

    def step(s, action, rng, p):
        """Drive down (0), up (1), right (2) or left (3), pick up (4) or drop (5)."""
        outcome = 0
        s.prob = 1.0
        if p.rain != DRY and action < 4:
            outcome = sample_of_three(rng, p.straight_probability, p.side_probability, p.side_probability)
            s.prob = p.straight_probability if outcome == 0 else p.side_probability
        else:
            random(rng)
        reward = -1.0
        terminated = False
        stop = STOP_AT[s.place]
        was_aboard = s.passenger == ABOARD
        if action == 4:
            if stop >= 0 and s.passenger == stop:
                s.passenger = ABOARD
            else:
                reward = -10.0
        elif action == 5:
            if stop >= 0 and was_aboard:
                s.passenger = stop
                terminated = stop == s.destination
                reward = 20.0 if terminated else -1.0
            else:
                reward = -10.0
        place = PLACES[p.rain, s.place, action, outcome]
        if s.fickle and was_aboard and place != s.place:
            s.fickle = False
            other = integers(rng, 0, 3)
            s.destination = other + 1 if other >= s.destination else other
        s.place = place
        return reward, terminated

    def observe(s, obs, p):
        """The whole state as one number."""
        obs[0] = (s.place * 5 + s.passenger) * 4 + s.destination

    def action_mask(s, mask, p):
        """The actions that change something when it does not rain."""
        for action in range(4):
            mask[action] = PLACES[DRY, s.place, action, 0] != s.place
        stop = STOP_AT[s.place]
        mask[4] = stop >= 0 and s.passenger == stop
        mask[5] = stop >= 0 and s.passenger == ABOARD
