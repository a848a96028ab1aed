"""Settings for all tests: signals, time limits, the kernel cache, and which tests run side by side."""

from __future__ import annotations

import faulthandler
import importlib.util
import logging
import os
import signal
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings

from tests.groups import RAY_FOLDERS, forks, is_of_ray

# Other processes may use the machine; these tests do not check how fast examples run.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

_stderr = os.dup(2)
_tried: Counter[str] = Counter()
"""Sums over all tests, in the process that reports."""


def pytest_configure(config: pytest.Config) -> None:
    """Undo what the starting shell may have set, and give all processes of this run one kernel cache and one priority.

    A job in the background of a script ignores SIGINT, and passes that on to every program it starts. A program that is
    started from here gets the default instead.
    """
    global _stderr
    _stderr = os.dup(2)  # pytest captures output from the first test on; here it is still the terminal
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for driver in ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER"):  # or pygame looks for a screen and sound, and complains
        os.environ.setdefault(driver, "dummy")
    os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's default, 15, starves actors beside two busy tests
    if "VECENV_CACHE_DIR" not in os.environ and hasattr(config, "cache"):  # processes that this one starts inherit it
        kernels = config.cache.mkdir("kernels")
        kernels.chmod(0o700)  # whatever the umask: a cache that others can write to is not used
        os.environ["VECENV_CACHE_DIR"] = str(kernels)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests that fork first, and mark as slow what only `make test-all` runs.

    Slow is what tests/long_tests.txt lists and what `mostly_on_sync` leaves out.

    Raises:
        UsageError: a line of the list names no test, which is checked when all tests are collected; or a test connects
            to Ray and is in none of the folders whose tests have a process of their own (tests/groups.py).
    """
    items.sort(key=lambda item: not forks(item.nodeid))
    lines = Path(__file__).with_name("long_tests.txt").read_text().splitlines()
    parsed = (line.partition(" 1/")[::2] for line in lines if line and not line.startswith("#"))
    listed = {name: int(share) if share else 0 for name, share in parsed}
    unknown = set(listed)
    lacking = {"process": _no_processes(), "mujoco": _not_installed("mujoco")}
    lacking |= {"compiled": _not_installed("numba"), "ale": _not_installed("ale_py")}
    for item in items:
        for engine, why in lacking.items():
            if why is not None and any(str(value).startswith(engine) for value in _parameters(item).values()):
                item.add_marker(pytest.mark.skip(reason=why))
        names = {item.nodeid, item.nodeid.partition("[")[0]}
        if any(_is_left_out(item, listed[name]) for name in names & listed.keys()) or _left_to_sync(item):
            item.add_marker(pytest.mark.slow)
        unknown -= names
        if "cluster" in getattr(item, "fixturenames", ()) and not is_of_ray(item.nodeid):
            _refuse(f"{item.nodeid} uses the fixture `cluster`: move it to one of {sorted(RAY_FOLDERS)}")
    if unknown and [Path(argument).resolve() for argument in config.args] == [Path(__file__).parent]:
        _refuse(f"tests/long_tests.txt names tests that do not exist: {sorted(unknown)}")


def _refuse(message: str) -> NoReturn:
    os.write(_stderr, f"{message}\n".encode())  # xdist does not report what its processes raise here
    raise pytest.UsageError(message)


def _no_processes() -> str | None:
    """Why the process engine cannot run on this platform, None if it can."""
    from vecenv.engines import Process

    return Process.unavailable()


def _not_installed(module: str) -> str | None:
    """Why tests of an engine that needs a module cannot run, None if they can."""
    return None if importlib.util.find_spec(module) is not None else f"{module} is not installed"


def _parameters(item: Any) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_left_out(item: pytest.Item, share: int) -> bool:
    """Whether `make test` leaves out a listed test; with a share of 4 it runs one parameter in four."""
    return not share or zlib.crc32(item.nodeid.encode()) % share > 0


def _left_to_sync(item: Any) -> bool:
    """Whether this is one of the five cases in six that `mostly_on_sync` (tests/twins.py) tries on sync alone."""
    if item.get_closest_marker("mostly_on_sync") is None or item.callspec.params["engine"] == "sync":
        return False
    return _is_left_out(item, 6)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests as tests/scheduler.py does."""
    from tests.scheduler import Scheduler

    return Scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process of a test that its timeout cannot stop, because it hangs in native code; print all stacks.

    pytest-timeout raises in the main thread, which fails one test. If that has not helped after another 20 seconds,
    this process ends; xdist reports the test as crashed and runs the others in a new process.
    """
    marker = item.get_closest_marker("timeout")
    limit = marker.args[0] if marker and marker.args else float(item.config.getini("timeout") or 60)
    faulthandler.dump_traceback_later(limit + 20, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """For a test to count the random cases it tried, by name: see tests/trying.py."""
    counts: Counter[str] = Counter()
    yield counts
    request.node.user_properties += [("tried", [name, count]) for name, count in counts.items()]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what tests tried; xdist's processes send it with their reports."""
    for what, value in report.user_properties if report.when == "teardown" else ():
        if what == "tried":
            name, count = value
            _tried[name] += count


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many random cases were tried."""
    for name, count in sorted(_tried.items()):
        terminalreporter.write_line(f"tried: {count:,} {name}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[None]:
    """One small Ray cluster for all tests that use Ray.

    It has four processors on paper, so that tests need not wait until the actors of others are gone.
    """
    import ray

    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # actors import the tests' envs
        warnings.simplefilter("ignore")
        ray.init(
            address="local",
            num_cpus=4,
            include_dashboard=False,
            object_store_memory=200 << 20,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    yield
    ray.shutdown()
