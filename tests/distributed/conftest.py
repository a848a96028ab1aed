"""Settings for tests of actors."""

from __future__ import annotations

import pytest

from vecenv._batch import faults


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/distributed/" in item.path.as_posix() and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts follow at once."""
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)
