"""A tour through vecenv on a platform that this process pretends to be; prints what it found as JSON.

python -m tests.platforms.tour win32
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import pkgutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.platforms.pretend import OPTIONAL, pretend


def modules() -> dict[str, str]:
    """Import every module of the package; returns those that cannot be imported, and what they need."""
    import vecenv
    from vecenv.errors import MissingExtra

    lacking = {}
    for found in pkgutil.walk_packages(vecenv.__path__, "vecenv.", onerror=lambda name: None):
        if found.name.endswith(("__main__", "replace_sb3")):  # these do something when they are imported
            continue
        try:
            importlib.import_module(found.name)
        except MissingExtra as error:
            lacking[found.name] = str(error)
        except ImportError as error:
            if str(error.name).partition(".")[0] not in OPTIONAL:
                raise
            lacking[found.name] = str(error.name)
    return lacking


def _has_processes() -> bool:
    from vecenv.engines import Process

    return Process.unavailable() is None


def digest(env: Any, count: int, **options: Any) -> str:
    """A hash of all bits that 60 steps give."""
    import numpy as np

    import vecenv

    found = hashlib.sha256()
    with vecenv.make(env, count, **options) as envs:
        obs, _ = envs.reset(seed=7)
        found.update(np.ascontiguousarray(obs).tobytes())
        actions = np.random.default_rng(3)
        for _ in range(60):
            for part in envs.step(actions.integers(0, 2, count))[:4]:
                found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:16]


def chosen(env: Any) -> dict[str, str]:
    """What `engine="auto"` chooses, and its reason."""
    import vecenv

    with vecenv.make(env, 4) as envs:
        return {"engine": envs.engine.name, "reason": envs.engine_reason}


def refusal(function: Any, *arguments: Any, **options: Any) -> str:
    """The message of the error that a call raises; empty if it raises none."""
    try:
        made = function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    made.close()
    return ""


def without_native_code() -> dict[str, str]:
    """What is chosen and said if the trial of native code fails: here because no Python can be started."""
    import vecenv
    from vecenv.kernel.numba.trial import native_code_fails

    native_code_fails.cache_clear()
    really, sys.executable = sys.executable, "/bin/false"
    try:
        found = chosen("CartPole-v1")
        found["refusal"] = refusal(vecenv.make, "CartPole-v1", 4, engine="compiled")
        found["bits"] = digest("CartPole-v1", 4)
    finally:
        sys.executable = really
        native_code_fails.cache_clear()
    return found


def recording() -> str:
    """Record the episode of an env that raises, run it again from the file; returns how that ended."""
    import vecenv
    from vecenv.errors import EnvError
    from vecenv.recording import replay
    from vecenv.testing import FaultEnv

    with tempfile.TemporaryDirectory() as folder:
        faults = {"kind": "raise", "at": 3, "env": 0}
        options: Any = {"engine": "sync", "record": "last-episode", "record_folder": folder}
        with vecenv.make(FaultEnv, 2, env_kwargs=faults, **options) as envs:
            try:
                envs.reset(seed=1)
                for _ in range(100):
                    envs.step(envs.action_space.sample())
            except EnvError as error:
                return str(replay(error.recording or "no file", trust=True).outcome)
    return "no fault"


def main(platform: str) -> None:
    """Take the tour."""
    pretend(platform)
    import gymnasium

    import vecenv
    import vecenv.gymnasium
    import vecenv.sb3
    from vecenv._util.files import write_file

    script = "CartPole-v1"
    found: dict[str, Any] = {"platform": sys.platform, "modules that need more": modules()}
    with tempfile.TemporaryDirectory() as folder:  # the cache says which code was tried
        os.chmod(folder, 0o700)
        before, os.environ["VECENV_CACHE_DIR"] = os.environ.get("VECENV_CACHE_DIR", ""), folder
        found["no native code"] = without_native_code()
        os.environ["VECENV_CACHE_DIR"] = before
    found["bits"] = {engine: digest(script, 4, engine=engine) for engine in ("compiled", "sync", "thread")}
    python = lambda: gymnasium.make(script)  # noqa: E731
    found["Python bits"] = {engine: digest(python, 4, engine=engine) for engine in ("sync", "thread", "asyncio")}
    if _has_processes():
        found["Python bits"]["process"] = digest(python, 4, engine="process", workers=2)
        found["Python bits"]["process, fork"] = digest(python, 4, engine="process", workers=2, context="fork")
    found["kernel"], found["env"] = chosen(script), chosen(python)
    found["process"] = refusal(vecenv.make, python, 4, engine="process")
    found["object"] = refusal(lambda: vecenv.make(python, 4, engine=vecenv.engines.Process(workers=2)))
    found["AsyncVectorEnv"] = refusal(vecenv.gymnasium.AsyncVectorEnv, [python] * 2)
    found["SubprocVecEnv"] = refusal(vecenv.sb3.SubprocVecEnv, [python] * 2)
    found["recording"] = recording()
    with tempfile.TemporaryDirectory() as folder:
        for text in ("first", "second"):
            write_file(Path(folder) / "file", text)
        found["files"] = {path.name: path.read_text() for path in Path(folder).iterdir()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
