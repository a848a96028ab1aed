"""Programs that come to an end in some way, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.faults.faulty import until

MARKER = "MARK_OF_THE_TEST"
PREAMBLE = """
import atexit, ctypes, os, signal, sys, threading, time
import vecenv
from vecenv.testing import FaultEnv

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may have it ignored

def start(context, kind="none", **options):
    envs = vecenv.make(FaultEnv.many(4, kind=kind, **options), engine="process", workers=2, context=context)
    envs.reset(seed=0)
    return envs

def ready():
    print("ready", flush=True)
"""


class Program:
    """A script in a process of its own, with a temporary directory of its own and a mark on all it starts."""

    def __init__(self, body: str, folder: Path) -> None:
        self.mark = f"{MARKER}={uuid.uuid4().hex}"
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir(parents=True)
        self.shared = _shared()
        script = folder / "script.py"
        script.write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(body))
        name, value = self.mark.split("=")
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(script)],
                env={**os.environ, name: value, "TMPDIR": str(self.temporary)},
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    def wait_ready(self, sign: Path | None = None) -> None:
        """Wait until the program says so, or has made the file `sign`."""
        if sign is None:
            assert until(lambda: "ready" in self.stdout or self.process.poll() is not None, 20.0), "it never got ready"
            assert "ready" in self.stdout, self.stderr
        else:
            assert until(lambda: sign.exists() or self.process.poll() is not None, 20.0), "it never got so far"
            assert sign.exists(), self.stderr

    def end(self, seconds: float) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(seconds)

    def alive(self) -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.mark in _environment(pid)]

    def assert_nothing_left(self) -> None:
        """No process after two seconds, no file, no shared memory."""
        assert until(lambda: not self.alive(), 2.0), [_command(pid) for pid in self.alive()]
        assert list(self.temporary.iterdir()) == []
        assert until(lambda: not self._shared_left(), 2.0), self._shared_left()

    def _shared_left(self) -> set[str]:
        """Names of shared memory that nobody has. Those that others make and remove at once are gone a moment later."""
        return {name for name in _shared() - self.shared if not _is_mapped(name)}


def _shared() -> set[str]:
    """Shared memory and semaphores that have a name."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("vecenv", "psm_", "sem.", "pym", "mp-"))}


def _is_mapped(name: str) -> bool:
    """Whether a process that lives has this memory: then it belongs to another program, which runs beside this one."""
    return any(f"/dev/shm/{name}" in _text(maps) for maps in Path("/proc").glob("[0-9]*/maps"))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended, or belongs to another user
        return ""


def _environment(pid: int) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state == "Z" else Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


@contextlib.contextmanager
def program(body: str, folder: Path) -> Iterator[Program]:
    running = Program(body, folder)
    try:
        yield running
    finally:
        for pid in running.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.process.wait()


def own_words(stderr: str) -> list[str]:
    """Lines on stderr that are not Python's own traceback of an exception nobody caught."""
    lines = stderr.splitlines()
    if "Traceback (most recent call last):" in lines:
        first = lines.index("Traceback (most recent call last):")
        last = next((place for place in range(first + 1, len(lines)) if not lines[place].startswith(" ")), first)
        del lines[first : last + 1]
    return lines
