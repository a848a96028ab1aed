"""Files that are mutated from real ones, loaded in a process that may do nothing else.

There the memory is limited for good, and an audit hook sees everything that a loader imports, runs, writes or connects
to.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.fuzzing import (
    ARCHIVE_DAMAGES,
    DAMAGES,
    MEMORY,
    Damage,
    both,
    cells_wrong,
    header_wrong,
    inside_json,
    json_wrong,
    opcodes_wrong,
)
from tests.fuzz.loaders import ARCHIVES, CHECKPOINTS, EVERY, PICKLES

FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "subprocess.Popen", "socket.connect",
             "socket.bind", "ctypes.dlopen", "pty.spawn", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod",
             "shutil.rmtree", "webbrowser.open", "code.__new__")  # fmt: skip


def damages_of(name: str) -> tuple[Damage, ...]:
    """What is done to files of this kind: to the bytes, and to what they mean."""
    if name in {**ARCHIVES, **CHECKPOINTS}:
        meant = (inside_json, header_wrong)
        return (*ARCHIVE_DAMAGES, *meant * 6, both(inside_json, inside_json), both(inside_json, header_wrong))
    if name in PICKLES:
        return (*DAMAGES, *(opcodes_wrong,) * 9)
    return (*DAMAGES, *((json_wrong if name == "config.json" else cells_wrong),) * 9)


def run(name: str, seed: int, count: int) -> dict[str, int]:
    """Load `count` mutated files of one kind; counts of what happened."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        saving, loading = Path(folder) / "saving", Path(folder) / "loading"
        saving.mkdir()
        loading.mkdir()
        with EVERY[name](saving) as loader:
            assert loader.attempt(loader.data, loading) is None, "the right file is refused"
            right = loader.loaded
            _limit_memory()
            for number in range(count):
                rng = np.random.default_rng([seed, number])
                damages = damages_of(name)
                damage = damages[number % len(damages)]
                data = damage(loader.data, rng)
                print(f"file {number} of seed {seed}: {getattr(damage, '__name__', damage)}", flush=True)
                (loading / loader.name).write_bytes(data)
                with watch:
                    refusal = loader.attempt(data, loading)
                assert not watch.seen, f"file {number} of seed {seed} made the loader do this: {watch.seen}"
                if refusal is None and name in ARCHIVES and damage in DAMAGES:  # checksums were not made right again
                    assert loader.loaded == right, f"file {number} of seed {seed} is loaded, with other numbers"
        return {"files": count, **loader.result}


def _limit_memory() -> None:
    """For good: no loader may take more."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))


class Watch:
    """Sees what happens in a block that no loader may do."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._on = False
        self._modules: set[str] = set()
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event in FORBIDDEN or (event == "exec" and "/fuzz/" in str(arguments[0])):
            self.seen.append(f"{event} {arguments!r:.200}")

    def __enter__(self) -> None:
        self._modules = set(sys.modules)
        self._on = True

    def __exit__(self, *exception: object) -> None:
        self._on = False
        new = {name for name in set(sys.modules) - self._modules if name.split(".")[0] in _TEMPTING}
        self.seen += [f"import of {name}" for name in sorted(new)]


_TEMPTING = {"evil", "antigravity", "this", "pty", "webbrowser", "evil_module"}
"""Modules that no loader needs."""
