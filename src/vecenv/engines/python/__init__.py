"""Engines that step Python envs in this process, and what every engine of Python envs shares."""
