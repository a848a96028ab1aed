"""Which tests connect to Ray in their own process, and which run first."""

from __future__ import annotations

RAY_FOLDERS = {"distributed", "rllib", "run_training"}
"""Tests of these folders may; they share one cluster."""
FORKING_FOLDERS = {"faults", "fuzz", "laws", "protocol"}
"""Tests of these folders fork thousands of times. They run first: a fork of a process that has loaded the compilers and
simulators of other tests, some gigabytes, takes twenty times as long."""


def is_of_ray(nodeid: str) -> bool:
    """Whether a test runs in the process that is connected to Ray."""
    return _is_in(RAY_FOLDERS, nodeid)


def forks(nodeid: str) -> bool:
    """Whether a test is one of those that run first."""
    return _is_in(FORKING_FOLDERS, nodeid)


def _is_in(folders: set[str], nodeid: str) -> bool:
    return not folders.isdisjoint(nodeid.partition("::")[0].split("/"))
