"""A client of an OpenEnv server as an env: one session of the echo environment."""

from __future__ import annotations

import gymnasium
from gymnasium import spaces
from openenv.core.generic_client import GenericEnvClient
from websockets.exceptions import ConnectionClosed

CHARACTERS = frozenset(map(chr, range(32, 127)))


class EchoClient(gymnasium.Env):
    def __init__(self, url: str) -> None:
        self.observation_space = spaces.Text(1000, min_length=0, charset=CHARACTERS)
        self.action_space = spaces.Text(1000, min_length=0, charset=CHARACTERS)
        self.client = GenericEnvClient(url)

    async def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        result = await self.client.reset()
        return result.observation["echoed_message"], {}

    async def step(self, action):
        result = await self.client.step({"message": action})
        length = result.observation["message_length"]
        return result.observation["echoed_message"], result.reward, result.done, False, {"length": length}

    async def close(self):
        await self.client.disconnect()


def classify(error: BaseException, phase: str) -> str | None:
    """What the `websockets` package raises when a connection is lost is no ConnectionError of Python."""
    return "infrastructure" if isinstance(error, ConnectionClosed) else None
