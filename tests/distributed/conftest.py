"""One small cluster for each file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")
sys.path.append(str(Path(__file__).parents[1] / "faults"))
STORE = 200 << 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/distributed/" in item.path.as_posix() and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Four processors on paper, so that tests need not wait for each other's actors to go."""
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=STORE,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield
    ray.shutdown()
