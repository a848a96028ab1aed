"""Tests with real client libraries are run by tests/clients/run.py, each in an environment that has its library."""

from __future__ import annotations

import os

if "VECENV_CLIENT" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
