"""Tests of the device engine need Warp, which the extra `dev` brings."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("warp") else ["test_*.py"]
