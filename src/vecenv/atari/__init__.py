"""Atari games with the usual preprocessing: `vecenv.make("ALE/Pong-v5", 16, preprocessing=True)`.

ale-py, which they run on, is under the GPL-2.0; vecenv does not ship it (`pip install 'vecenv[atari]'`).
"""

from vecenv.atari._env import AtariGame
from vecenv.atari._preprocessing import Preprocessing

__all__ = ["AtariGame", "Preprocessing"]
