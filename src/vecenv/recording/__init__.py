"""The flight recorder: what is needed to run an env's episode again, as a file of data."""

from vecenv.engines.recording.recording import Recording
from vecenv.recording._replay import replay
from vecenv.recording._result import Replay

__all__ = ["Recording", "Replay", "replay"]
