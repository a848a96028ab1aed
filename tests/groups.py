"""Which tests connect to Ray in their own process."""

from __future__ import annotations

RAY_FOLDERS = {"distributed", "rllib", "run_training"}
"""Tests of these folders may; they share one cluster."""


def is_of_ray(nodeid: str) -> bool:
    """Whether a test runs in the process that is connected to Ray."""
    return not RAY_FOLDERS.isdisjoint(nodeid.partition("::")[0].split("/"))
