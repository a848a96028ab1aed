"""Recordings of failed episodes, files of plain data, and running such an episode again."""

from vecenv.engines.recording.recording import Recording
from vecenv.recording._replay import replay
from vecenv.recording._result import Replay

__all__ = ["Recording", "Replay", "replay"]
