"""Without MuJoCo, or without what Gymnasium's MuJoCo envs need, there is nothing to test here."""

import importlib.util

import pytest

NEEDED = ("mujoco", "imageio")
collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path, monkeypatch) -> None:
    """MuJoCo writes its warnings into a file where it is."""
    monkeypatch.chdir(tmp_path)
