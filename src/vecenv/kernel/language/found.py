"""Mistakes of a definition, collected: one error names all of them, in the order of their lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vecenv.errors import KernelError


class Unsure(KernelError):
    """A place that cannot be judged, because of a mistake elsewhere or a name that is defined later. Never shown."""


class Found:
    """The mistakes that were found so far.

    Attributes:
        errors: one for each mistake.
        places: files and lines of mistakes and of what cannot be judged; later stages leave these lines out.
    """

    def __init__(self) -> None:
        self.errors: list[KernelError] = []
        self.places: set[tuple[str | None, int | None]] = set()

    def add(self, error: KernelError) -> None:
        """Note a mistake, once."""
        for one in error.errors:
            self.places.add((one.file, one.line))
            if not isinstance(one, Unsure) and all(str(one) != str(known) for known in self.errors):
                self.errors.append(one)

    def noted(self) -> tuple[int, frozenset[tuple[str | None, int | None]]]:
        """What was noted so far, for `forget`."""
        return len(self.errors), frozenset(self.places)

    def forget(self, until: tuple[int, frozenset[tuple[str | None, int | None]]]) -> None:
        """Forget what was noted since."""
        del self.errors[until[0] :]
        self.places = set(until[1])

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note a KernelError that is raised inside, and go on behind."""
        try:
            yield
        except KernelError as error:
            self.add(error)

    def raise_all(self) -> None:
        """Raise one KernelError for all mistakes; nothing if there are none."""
        if self.errors:
            raise KernelError.of(self.errors) from None
