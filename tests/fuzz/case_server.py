"""Runs cases that may hang, crash or damage their process: each in a child of its own, with a deadline.

    python -m tests.fuzz.case_server module:function

The server imports the module once and stays free of threads, so that forking it costs milliseconds and is safe. It
reads one JSON list of arguments per line, runs `function(*arguments)` in a child, and writes one JSON object per line:
the result, the traceback, the signal that ended the child, or where it was at its deadline.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_SUBREAPER = 36
_LONGEST = 20_000
_GRACE = 5.0
"""Seconds after which a case is killed that its own watchdog did not end."""


class CaseServer:
    """The parent's side: `run` gives what became of a case."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._process: subprocess.Popen[str] | None = None

    def run(self, seconds: float, *arguments: Any) -> dict[str, Any]:
        """Run one case; {"result": ...} or {"failed": text}."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.fuzz.case_server", self._function]
            self._process = subprocess.Popen(
                command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([seconds, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the server of {self._function} ended with {self._process.wait()}"
        return json.loads(line)

    def close(self) -> None:
        """End the server, and a case that still runs."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()


@contextlib.contextmanager
def case_server(function: str) -> Iterator[CaseServer]:
    """A server that ends with the block."""
    server = CaseServer(function)
    try:
        yield server
    finally:
        server.close()


def adopt_orphans() -> None:
    """From now on, processes whose parent ended become children of this one."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> dict[int, str]:
    """All processes below this one that have not ended, and their commands."""
    parents: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents.setdefault(int(parent), []).append(int(entry))
    found, look = {}, [pid]
    while look:
        for child in parents.get(look.pop(), []):
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                look.append(child)
    return found


def _serve(function: Callable[..., Any]) -> None:
    adopt_orphans()
    gc.freeze()  # children collect garbage, and need not look at all modules each time
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        seconds, *arguments = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            answer = _run(function, seconds, arguments, Path(folder))
            if "failed" in answer:
                answer["failed"] += (Path(folder) / "output").read_bytes()[-_LONGEST:].decode(errors="replace")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _run(function: Callable[..., Any], seconds: float, arguments: list[Any], folder: Path) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        _be_the_child(function, seconds, arguments, folder)
    ended = _wait(child, seconds + _GRACE)
    if not ended:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _end_orphans()
    if (folder / "answer").exists():
        return json.loads((folder / "answer").read_text())
    return {"failed": f"ended with exit code {code}\n" if ended else f"still running after {seconds} s\n"}


def _be_the_child(function: Callable[..., Any], seconds: float, arguments: list[Any], folder: Path) -> None:
    """Run the case with no open file but the usual three: it may write into all of them."""
    code = 1
    try:
        os.setsid()
        adopt_orphans()
        os.closerange(0, 256)
        os.open(os.devnull, os.O_RDONLY)
        os.dup2(os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        faulthandler.enable()
        faulthandler.dump_traceback_later(seconds, exit=True)
        try:
            answer = {"result": function(*arguments)}
        except BaseException as error:
            answer = {"failed": _text_of(error)[-_LONGEST:]}
        faulthandler.cancel_dump_traceback_later()
        (folder / "part").write_text(json.dumps(answer))
        (folder / "part").rename(folder / "answer")
        code = 0
    finally:
        os._exit(code)


def _text_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except BaseException:  # the exception that caused it is hostile
        return f"{error}\n{''.join(traceback.format_tb(error.__traceback__))}"


def _wait(pid: int, seconds: float) -> bool:
    """Whether the process ends in time."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(1000 * seconds))
    finally:
        os.close(descriptor)


def _end_orphans() -> None:
    """Kill and reap whatever a case has left."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


if __name__ == "__main__":
    module, name = sys.argv[1].split(":")
    _serve(getattr(importlib.import_module(module), name))
