"""The name that a user probably meant, as the end of an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def nearest(name: Any, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like `name`, ignoring case; None if the similarity of all is below `cutoff`."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    near = difflib.get_close_matches(str(name).lower(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None


def did_you_mean(name: Any, known: Iterable[str], otherwise: str = "", cutoff: float = 0.6) -> str:
    """`; did you mean 'the nearest'?`, to be appended to a message; if no known name is near, `; otherwise`, or ""."""
    near = nearest(name, known, cutoff)
    if near is not None:
        return f"; did you mean {near!r}?"
    return f"; {otherwise}" if otherwise else ""
