"""One small Ray for each file of this folder."""

import logging
import os
from pathlib import Path

import pytest
import ray
import torch


def pytest_collection_modifyitems(items):
    """Ray and RLlib warn about themselves; ours stay errors."""
    for item in items:
        if "rllib" in item.path.parts:
            for module in ("ray", "torch", "pydantic", "pyarrow"):
                item.add_marker(pytest.mark.filterwarnings(rf"ignore:::{module}(\.|$)"))
            item.add_marker(pytest.mark.filterwarnings("ignore:.*rllib-single-agent-env-v0 already in registry"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="module", autouse=True)
def ray_here():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    ray.init(
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}},
        address="local",
        num_cpus=4,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        object_store_memory=120 * 2**20,
    )
    yield
    ray.shutdown()
    torch.set_num_threads(threads)
