from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Python 3.12 warns of any fork beside threads; pytest-timeout has one.
    config.addinivalue_line("filterwarnings", "ignore:.*multi-threaded.*fork:DeprecationWarning")
