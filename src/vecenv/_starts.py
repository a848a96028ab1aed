"""How an episode began: what whoever runs an env notes just before its reset, for the flight recorder.

A row has a kind and seven words. The kind is written last, so that words that are half written, because the process
died, are not taken for a start. A recorder that has taken a start sets the kind back to WATCHED.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vecenv._seeding import NO_SEED

UNWATCHED, WATCHED, SEEDED, STREAM, UNKNOWN = range(5)
"""Nobody records; nothing new; a seed; the place of the env's random stream; a stream that has no words."""
WORDS = 7
"""Seed, or the six words of the stream; and whether there were options."""


def note_start(kinds: Any, words: np.ndarray, row: int, env: Any, seed: int, options: Any) -> None:
    """Note that the env of a row is about to be reset.

    Args:
        kinds, words: columns of all rows.
        row: which it is.
        env: before its reset.
        seed: of the reset, NO_SEED for none.
        options: of the reset.
    """
    kinds[row] = WATCHED
    place = (seed,) if seed != NO_SEED else _place(env)
    words[row] = (*(place or ()), *[0] * (WORDS - 1 - len(place or ())), options is not None)
    kinds[row] = SEEDED if seed != NO_SEED else UNKNOWN if place is None else STREAM


def _place(env: Any) -> tuple[int, ...] | None:
    from vecenv.recording._random_state import words_of  # whoever does not record need not load it

    try:
        return words_of(env.unwrapped.np_random)
    except Exception:  # a property of the user's env
        return None
