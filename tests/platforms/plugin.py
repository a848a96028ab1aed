"""Run tests on a platform that this process pretends to be.

PRETEND=win32 python -m pytest -p tests.platforms.plugin -o timeout_method=thread -n 0 @tests/platforms/core.txt
"""

from __future__ import annotations

import os

from tests.platforms.pretend import pretend


def pytest_sessionstart() -> None:
    """Pretend when pytest itself is ready, and before a test imports vecenv."""
    pretend(os.environ["PRETEND"])
