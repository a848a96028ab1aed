"""A plugin of pytest, `-p tests.device.in_place`: the device engine on the CPU in place of the compiled engine.

VECENV_COLUMNS=apart keeps columns in memory of the device, as on a GPU; by default they are those of the host. What is
left out, and why, is said here and nowhere else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.device.cpp_draws import cpp_of
from tests.kernels import native_draws
from vecenv.engines.device.engine import DeviceEngine
from vecenv.engines.native import options
from vecenv.kernel.language.define import Kernel

REFUSED = {
    "render_mode": (None, "a device draws nothing"),
    "check": (False, "C++ has no checks"),
    "precision": ("exact", "fast code of a device has floats of 32 bits: tests/device/test_fast.py compares it"),
}
"""Options of the compiled engine that the device engine refuses, or takes for something else: the value that it takes,
and why. A test that asks for another value is skipped."""
ONE_THREAD = "the CPU device has one thread"
LEFT_OUT = {
    "test_threads_end_with_the_envs": ONE_THREAD,
    "test_which_way_is_faster_is_measured": ONE_THREAD,
}
"""Tests that are about something that the device engine does not have."""
OTHER_FILES = {
    "test_array_rules": "what is refused before a backend is asked",
    "test_cache": "the files of Numba's code; Warp keeps its own",
    "test_fast_math": "functions of Numba's fast code",
    "test_language_page": "the checker of the language",
    "test_python_env": "kernels in Python",
    "test_rng_python": "kernels in Python",
    "test_symbols": "symbols of Numba's object code",
    "test_threads": "the threads of the compiled engine",
    "test_types": "Numba's types; tests/device/test_cpp.py compares those of C++",
}
"""Files of tests/kernels in which nothing would be run by the device engine."""


class _InPlace(DeviceEngine):
    """Has the name of the engine in whose place it is."""

    name = "compiled"


class _InPlaceApart(_InPlace):
    """Columns in memory of the device, although it could be the host's."""

    _is_apart = True


class Place:
    """Builds device engines where compiled ones are asked for.

    Attributes:
        used: how many were built, and how many cases of draws were run by C++.
    """

    def __init__(self, engine: type[DeviceEngine]) -> None:
        self._engine = engine
        self.used = 0

    def engine_class(self, kernel: Kernel, render_mode: str | None) -> Callable[..., DeviceEngine]:
        """In place of `engine_class` of the engines of native code."""
        return self._build

    def _build(self, kernel: Kernel, count: int, **given: Any) -> DeviceEngine:
        for name, (taken, why) in REFUSED.items():
            if given[name] != taken:
                pytest.skip(why)
        self.used += 1
        return self._engine(kernel, count, **given)

    def native_draw(self, case: str) -> Callable[..., None]:
        """In place of `_native` of tests/kernels/native_draws.py."""
        self.used += 1
        return cpp_of(case)


@contextlib.contextmanager
def device_in_place(columns: str = "shared") -> Iterator[Place]:
    """Within it, `engine="compiled"` is the device engine on the CPU, with columns that are "shared" or "apart"."""
    place = Place({"shared": _InPlace, "apart": _InPlaceApart}[columns])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "engine_class", place.engine_class)
        patch.setattr(native_draws, "_native", place.native_draw)
        yield place


_place = pytest.StashKey[Place]()


@pytest.fixture(autouse=True, scope="session")
def device_in_place_of_compiled(pytestconfig: pytest.Config) -> Iterator[None]:
    """For all tests of a run that has this plugin, and for fixtures of modules."""
    with device_in_place(os.environ.get("VECENV_COLUMNS", "shared")) as place:
        pytestconfig.stash[_place] = place
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests that are left out."""
    for item in items:
        if (why := LEFT_OUT.get(item.name)) is not None:
            item.add_marker(pytest.mark.skip(reason=why))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how often C++ was used: a run that never did has tested nothing."""
    terminalreporter.write_line(f"used in place: {config.stash[_place].used}")
