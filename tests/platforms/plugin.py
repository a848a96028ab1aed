"""Run tests on a platform that this process pretends to be.

PRETEND=win32 python -m pytest -p tests.platforms.plugin -o timeout_method=thread -n 0 @tests/platforms/core.txt
"""

from __future__ import annotations

import os

from tests.platforms.pretend import pretend

pretend(os.environ["PRETEND"])
