"""Random programs of calls on the sync engine and on another one: whatever comes back is the same to the last bit."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest

import vecenv
from tests.laws.building import ENGINES, native_envs
from tests.twins import PLAIN, SPACES, SampleEnv
from vecenv import wrappers
from vecenv._batch import faults
from vecenv.testing import FaultEnv, LawEnv, check_same

MODES = ("next-step", "same-step", "disabled")
PORTABLE = (
    "none",
    "raise",
    "percent",
    "system-exit",
    "four-values",
    "no-values",
    "reward-none",
    "reward-string",
    "flag-string",
    "obs-shape",
    "obs-scalar",
    "obs-none",
    "info-list",
)
STUCK = ("two-args", "unpicklable")
"""Exceptions that no process can send to another: there they arrive as plain EnvErrors."""
WRAPPERS: dict[str, Any] = {
    "none": lambda envs: envs,
    "stack": lambda envs: wrappers.FrameStackObservation(envs, 3),
    "normal": lambda envs: wrappers.NormalizeReward(wrappers.NormalizeObservation(envs)),
    "time": lambda envs: wrappers.TimeAwareObservation(envs, max_timesteps=10),
}
Variant = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.001)


def failing(kinds: tuple[str, ...]) -> list[Variant]:
    """Envs that fail in some way, early or late, and whether they are restarted."""
    steps = [(kind, "step") for kind in kinds]
    resets = [(kind, "reset") for kind in kinds if kind in ("raise", "percent", "system-exit", *STUCK)]
    return [
        (mode, on_error, kind, where, at)
        for mode in MODES
        for on_error in ("raise", "restart")
        for kind, where in [*steps, *resets]
        for at in (1, 3)
    ]


def build_failing(engine: str, variant: Variant) -> Any:
    mode, on_error, kind, where, at = variant
    envs = FaultEnv.many(4, kind=kind, where=where, at=at, length=4, talks=True)
    return vecenv.make(envs, autoreset=mode, on_error=on_error, **ENGINES[engine])


OF_SPACES = [(mode, name, which) for mode in MODES for name in SPACES for which in ("observe", "act")]


def build_spaces(engine: str, variant: Variant) -> Any:
    mode, name, which = variant
    pair = (SPACES[name], PLAIN) if which == "observe" else (PLAIN, SPACES[name])
    return vecenv.make([partial(SampleEnv, *pair)] * 4, autoreset=mode, **ENGINES[engine])


OF_WRAPPERS = {
    asynchronous: [(mode, name) for mode in MODES for name in WRAPPERS if (name != "normal") is asynchronous]
    for asynchronous in (True, False)
}
"""Statistics depend on the order in which envs are received, so these are received all at once."""


def build_wrapped(engine: str, variant: Variant) -> Any:
    mode, name = variant
    return WRAPPERS[name](vecenv.make([partial(LawEnv, row) for row in range(4)], autoreset=mode, **ENGINES[engine]))


@pytest.mark.parametrize(
    ("engine", "examples"), [("thread", 25), ("asyncio", 12), ("fork", 12), ("caller", 5), ("forkserver", 3)]
)
def test_failures_are_those_of_the_sync_engine(engine: str, examples: int) -> None:
    check_failures(engine, examples=examples)


def check_failures(engine: str, **size: Any) -> Any:
    variants = failing((*PORTABLE, *STUCK) if engine == "thread" else PORTABLE)
    if engine == "asyncio":  # which builds an env again after its result was delivered, and says the class of the fault
        variants = [variant for variant in variants if variant[1] == "raise"]
    if engine == "forkserver":  # the pauses before a restart are as long as they are in a process of its own
        variants = [variant for variant in variants if variant[1] == "raise"]
    return check_same(
        partial(build_failing, "sync"),
        partial(build_failing, engine),
        variants=variants,
        calls=[("poke", 2), ("poke", "wrong"), ("nothing",), ("episode",)],
        attributes={"length": [3, 5, [3, 4, 5, 6]]},
        **size,
    )


@pytest.mark.parametrize(("engine", "examples"), [("thread", 20), ("asyncio", 10), ("fork", 12), ("caller", 5)])
def test_values_of_all_spaces_are_those_of_the_sync_engine(engine: str, examples: int) -> None:
    check_spaces(engine, examples=examples)


def check_spaces(engine: str, **size: Any) -> Any:
    return check_same(
        partial(build_spaces, "sync"),
        partial(build_spaces, engine),
        variants=OF_SPACES,
        calls=[("episodes",)],
        attributes={"shortest": [2, [1, 2, 3, 4]]},
        **size,
    )


@pytest.mark.parametrize(("engine", "examples"), [("thread", 12), ("asyncio", 6), ("fork", 6)])
def test_wrapped_envs_are_those_of_the_sync_engine(engine: str, examples: int) -> None:
    pair = partial(build_wrapped, "sync"), partial(build_wrapped, engine)
    for asynchronous, variants in OF_WRAPPERS.items():
        share = examples * len(variants) // sum(map(len, OF_WRAPPERS.values()))
        check_same(*pair, variants=variants, asynchronous=asynchronous, examples=share)


def test_native_envs_are_those_of_the_sync_engine() -> None:
    """But for their infos: of an env without any, the sync engine says nothing either."""

    def silent(mode: str) -> Any:
        return vecenv.make([partial(SilentEnv, row) for row in range(4)], engine="sync", autoreset=mode)

    native = native_envs(threads=2)
    check_same(silent, lambda mode: native([None] * 4, mode), variants=MODES, examples=12)


class SilentEnv(LawEnv):
    """LawEnv without infos, as native code has it."""

    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0], {}

    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", [check_failures, check_spaces])
@pytest.mark.parametrize("engine", ["thread", "asyncio", "fork", "caller", "forkserver"])
def test_many_programs_on_both(engine: str, check: Any) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"{engine}: seed {seed}")
    print(check(engine, examples=75, seed=seed))
