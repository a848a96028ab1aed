"""One seeded fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SeededFault:
    """A small change of one source file that breaks one promise.

    Attributes:
        breaks: the promise that no longer holds, as a sentence. It names the fault.
        mechanism: part of vecenv, such as "autoreset" or "tickets".
        file: relative to src/vecenv.
        old: text that stands exactly once in the file.
        new: the text that replaces it.
        near: tests that are tried first, relative to tests/. They only save time.
    """

    breaks: str
    mechanism: str
    file: str
    old: str
    new: str
    near: tuple[str, ...]
