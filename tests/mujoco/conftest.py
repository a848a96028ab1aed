"""What all tests of MuJoCo need."""

import pytest


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path, monkeypatch) -> None:
    """MuJoCo writes its warnings into a file where it is."""
    monkeypatch.chdir(tmp_path)
