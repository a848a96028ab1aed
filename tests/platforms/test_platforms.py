"""What vecenv does on macOS and Windows, tried on a Linux without what these platforms do not have.

The real platforms are tried by .github/workflows/test.yml. Each test takes one tour, because a tour takes seconds.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from tests.platforms.pretend import OPTIONAL
from tests.platforms.tour import digest

pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(sys.platform != "linux", reason="it takes Linux and makes something else of it"),
]
ROOT = Path(__file__).parents[2]


def tour(platform: str) -> dict[str, Any]:
    """What tests/platforms/tour.py finds."""
    command = [sys.executable, "-m", "tests.platforms.tour", platform]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def bits() -> str:
    """What Gymnasium's CartPole gives here."""
    return digest(lambda: gymnasium.make("CartPole-v1"), 4, engine="sync")


def check_what_is_the_same_everywhere(found: dict[str, Any]) -> None:
    """Modules are imported, kernels are native code, engines without processes give the same bits, files work."""
    lacking = found["modules that need more"]
    assert "vecenv.trainers" in lacking, "the tour hides torch"
    assert {name: why for name, why in lacking.items() if not any(package in why for package in OPTIONAL)} == {}
    assert found["kernel"]["engine"] == "compiled"
    assert found["bits"] == dict.fromkeys(("compiled", "sync", "thread"), bits())
    assert [found["Python bits"][engine] for engine in ("sync", "thread", "asyncio")] == [bits()] * 3
    fallback = found["no native code"]
    unfit = f"the compiled engine cannot run here: native code does not run on this platform ({found['platform']})"
    assert fallback["engine"] == "sync"
    assert f"(not the compiled engine: {unfit}: a trial ended with code 1" in fallback["reason"]
    assert fallback["refusal"].startswith(f"EngineRefused: {unfit}")
    assert fallback["bits"] == bits()
    assert found["recording"] == "reproduced"
    assert found["files"] == {"file": "second"}


def test_macos_has_all_engines_without_the_calls_that_only_linux_has() -> None:
    """No memfd, no pidfd, no real-time signals, no /proc, no processor affinity: workers run, started either way."""
    found = tour("darwin")
    assert found["platform"] == "darwin"
    check_what_is_the_same_everywhere(found)
    assert (found["Python bits"]["process"], found["Python bits"]["process, fork"]) == (bits(), bits())
    assert [found[name] for name in ("process", "object", "AsyncVectorEnv", "SubprocVecEnv")] == [""] * 4


def test_windows_has_all_engines_but_processes_which_are_refused_with_the_reason() -> None:
    found = tour("win32")
    assert found["platform"] == "win32"
    check_what_is_the_same_everywhere(found)
    assert "process" not in found["Python bits"]
    why = "it needs Unix sockets, poll, process groups, signal masks, which this platform (win32) does not have"
    refusal = f"EngineRefused: the process engine cannot run here: {why}; use engine='sync' or 'thread'"
    assert found["process"] == found["object"] == found["SubprocVecEnv"] == refusal
    assert found["AsyncVectorEnv"] == f"EngineRefused: AsyncVectorEnv cannot run here: {why}; use SyncVectorEnv"
    reason = f"the sync engine, because the process engine cannot run here: {why}"
    assert found["env"] == {"engine": "sync", "reason": reason}
