"""How an episode began: what the row loop notes just before each reset of an env, for recordings.

A row has a kind and eight words. The kind is written last, so that words that are half written, because the process
died, are not taken for a start. A recorder that has taken a start sets the kind back to WATCHED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv._batch.seeding import NO_SEED

UNWATCHED, WATCHED, SEEDED, STREAM, UNKNOWN = range(5)
"""Not recorded; nothing new; a seed; the place of the env's random stream; a stream that has no words."""
WORDS = 8
"""The seed or the six words of the stream, whether there were options, and the kind once more."""


class Starts:
    """Notes the starts of some rows, in their columns `kinds` and `words`."""

    def __init__(self, kinds: Any, words: np.ndarray) -> None:
        self._kinds, self._words = kinds, words
        self._streams: dict[int, tuple[Any, Callable[[], None]]] = {}
        """Of rows whose last start was the place of a stream: their generator, and how to note its place once more."""

    def note(self, row: int, env: Any, seed: int, options: Any) -> None:
        """Note that the env of a row is about to be reset, with this seed (NO_SEED for none) and these options."""
        self._kinds[row] = WATCHED
        generator = None if seed != NO_SEED else _generator(env)
        stream = self._streams.get(row)
        if stream is not None and stream[0] is generator and options is None:
            stream[1]()
            self._kinds[row] = STREAM
        else:
            self._note_anew(row, seed, generator, options)

    def _note_anew(self, row: int, seed: int, generator: Any, options: Any) -> None:
        from vecenv._batch.random_state import follow, words_of  # only needed for recordings

        self._streams.pop(row, None)
        place = (seed,) if seed != NO_SEED else words_of(generator)
        kind = SEEDED if seed != NO_SEED else UNKNOWN if place is None else STREAM
        known = place or ()
        self._words[row] = (*known, *[0] * (WORDS - 2 - len(known)), options is not None, kind)
        self._kinds[row] = kind
        if kind == STREAM and options is None:
            again = follow(generator, self._words[row])
            if again is not None:
                self._streams[row] = generator, again


def _generator(env: Any) -> Any:
    try:
        return env.unwrapped.np_random
    except Exception:  # a property of the user's env
        return None
