"""Without MuJoCo, or without what Gymnasium's MuJoCo envs need, there is nothing to test here."""

import importlib.util

NEEDED = ("mujoco", "imageio")
collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["test_*.py"]
