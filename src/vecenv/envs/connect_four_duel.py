"""Connect Four for two players, by turns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from gymnasium import spaces

from vecenv.envs.connect_four import EMPTY, HEIGHT, WIDTH, ConnectFour, _drop, _wins
from vecenv.kernel.language.define import kernel


@kernel("ConnectFourDuel-v0")
class ConnectFourDuel:
    """Two players drop discs into the seven columns of a board of six rows, by turns; the first begins.

    Actions: the column; the action mask forbids full columns. Observation: planes of own discs and of the other's.
    Reward: 1 for a win, -1 for a loss, 0 for a draw. A disc in a full column loses.
    """

    agents = ("first", "second")
    observation_space = spaces.Box(0.0, 1.0, (2, HEIGHT, WIDTH), np.float32)
    action_space = spaces.Discrete(WIDTH)
    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 2}
    state: ClassVar = {"board": (np.int8, (HEIGHT, WIDTH)), "turn": int}
    render = ConnectFour.render

    def reset(s, rng, p):
        s.board[:] = EMPTY
        s.turn = 0

    def step(s, actions, reward, done, rng, p):
        """Drop a disc of the player whose turn it is."""
        player, other = s.turn, 1 - s.turn
        column = actions[player]
        if s.board[0, column] != EMPTY:
            reward[player] = -1.0
            reward[other] = 1.0
            done[:] = True
        else:
            _drop(s.board, column, player + 1)
            if _wins(s.board, player + 1):
                reward[player] = 1.0
                reward[other] = -1.0
                done[:] = True
            elif np.all(s.board != EMPTY):
                done[:] = True
        s.turn = other

    def acts(s, agent, p):
        return s.turn == agent

    def observe(s, agent, obs, p):
        obs[0] = s.board == agent + 1
        obs[1] = s.board == 2 - agent

    def action_mask(s, agent, mask, p):
        """Allow columns that are not full."""
        mask[:] = s.board[0] == EMPTY
