"""Tests of libraries that `make test` does not install are run by tests/clients/run.py, each in its own environment."""

from __future__ import annotations

import os

from tests.clients.run import LIBRARIES

collect_ignore = [] if "VECENV_CLIENT" in os.environ else [f"test_{library}.py" for library in LIBRARIES]
