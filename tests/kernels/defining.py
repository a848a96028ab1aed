"""Kernels written to files, so that a table of mistakes can be tried: a comment `#!` marks the line to be named."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from gymnasium.envs.registration import registry

from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.language import registry as kernels
from vecenv.kernel.language.python import KernelEnv

HEAD = """
import enum
import functools
import math
import random
import time
from types import SimpleNamespace

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

import vecenv
from vecenv.kernel import rng as numbers
from vecenv.kernel.rng import choice, integers, normal, permutation, shuffle, uniform

"""
MEMBERS = {
    "observation_space": "observation_space = Box(-1.0, 1.0, (2,))",
    "action_space": "action_space = Discrete(3)",
    "state": 'state = {"x": float, "count": int, "flag": bool, "board": (np.int8, (3, 4)), "order": (int, 5)}',
    "info": 'info = {"hits": int}',
    "Params": "class Params:\n    speed = 0.1\n    moves = np.array([1.0, 2.0])",
    "reset": "def reset(s, rng, p):\n    s.x = 0.0",
    "step": "def step(s, action, rng, p):\n    return 0.0, False",
    "observe": "def observe(s, obs, p):\n    obs[0] = s.x",
}
"""A kernel without a mistake; the members of a case replace these."""

_counter = itertools.count()


def written(path: Path, *members: str, before: str = "", without: str = "", decorator: str = "") -> Path:
    """Write a kernel `Wrong` with these members to a file."""
    own = [textwrap.dedent(member).strip("\n") for member in members]
    replaced = {without, *(_name(member) for member in own)}
    body = [member for name, member in MEMBERS.items() if name not in replaced] + own
    head = HEAD + textwrap.dedent(before) + "\n"
    text = head + (decorator or '@vecenv.kernel("Wrong-v0")') + "\nclass Wrong:\n"
    text += textwrap.indent("\n\n".join(body), "    ") + "\n"
    file = path / f"wrong_{next(_counter)}.py"
    file.write_text(text)
    return file


def marked(file: Path) -> int | None:
    """The line with the mark."""
    lines = file.read_text().splitlines()
    return next((number for number, line in enumerate(lines, start=1) if "#!" in line), None)


@contextmanager
def imported(file: Path) -> Iterator[ModuleType]:
    """The module in a file; afterwards its kernels are forgotten."""
    known, registered = set(kernels._kernels), set(registry)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[file.stem]
        for id in set(kernels._kernels) - known:
            del kernels._kernels[id]
        for id in set(registry) - registered:
            del registry[id]


def refused(file: Path, *, play: bool = False) -> KernelError:
    """The error of a definition when it is read or an env of it is made; with `play`, in the first episode."""
    with pytest.raises(KernelError) as caught, imported(file) as module:
        _played(KernelEnv(kernel_of(module.Wrong)), play)
    assert len(caught.value.errors) == 1, caught.value  # one mistake, one error
    return caught.value


def _played(env: KernelEnv, play: bool) -> None:
    assert play, "the definition was not refused"
    env.reset(seed=0)
    env.step(env.action_space.sample())


def accepted(file: Path, steps: int = 3) -> KernelEnv:
    """The env of a definition that is right, after some steps."""
    with imported(file) as module:
        env = KernelEnv(kernel_of(module.Wrong))
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(steps):
            env.step(env.action_space.sample())
    return env


def _name(member: str) -> str:
    found = re.search(r"^(?:async )?(?:def|class) (\w+)|^(\w+)\s*=", member, re.MULTILINE)
    assert found is not None, member
    return found[1] or found[2]
