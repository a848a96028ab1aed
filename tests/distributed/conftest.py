"""One small cluster for all files of this folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import ray

from vecenv import _faults

STORE = 200 << 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/distributed/" in item.path.as_posix() and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="package")
def cluster() -> Iterator[None]:
    """Four processors on paper, so that tests need not wait for each other's actors to go."""
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=STORE,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts follow at once."""
    monkeypatch.setattr(_faults, "_FIRST_PAUSE", 0.001)
