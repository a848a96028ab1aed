"""Settings for tests of RLlib's modes."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    """Ray and RLlib warn about themselves; ours stay errors."""
    for item in items:
        if "rllib" in item.path.parts:
            for module in ("ray", "torch", "pydantic", "pyarrow"):
                item.add_marker(pytest.mark.filterwarnings(rf"ignore:::{module}(\.|$)"))
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.*rllib-(single|multi)-agent-env-v0 already in registry")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture(scope="module", autouse=True)
def one_thread(cluster):
    """Small networks on a shared cluster."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
