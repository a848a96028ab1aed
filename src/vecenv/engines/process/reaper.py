"""A small process that ends what workers leave behind, when the parent cannot or is gone."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import threading

from vecenv._util.forks import FORK_LOCK

MARK = "VECENV_WORKER"
"""Environment variable of a worker, for its envs' children to inherit: they are known by it wherever they are."""

_SHELL = "/bin/sh"
_SCRIPT = f"""
trap '' HUP INT QUIT TERM
exec 3<&0
{{
    group() {{ kill -s "$1" -- "-$2"; }}
    sweep() {{
        for turn in 1 2 3; do
            found=$(grep -lsF -- "{MARK}=$1" /proc/[0-9]*/environ)
            [ -n "$found" ] || break
            for file in $found; do pid=${{file#/proc/}}; kill -s KILL "${{pid%/environ}}"; done
        done
    }}
    known=
    while read -r what pid mark; do
        kept=
        for one in $known; do [ "$one" = "$pid" ] || kept="$kept $one"; done
        known=$kept
        case $what in
        +) known="$known $pid" ;;
        x) group KILL "$pid"; sweep "$mark" ;;
        *) if group TERM "$pid"; then {{ sleep 1; group KILL "$pid"; }} & fi ;;
        esac
    done
    for one in $known; do group KILL "$one"; done
    [ -z "$known" ] || sweep "$1"
    wait
}} <&3 3<&- &
"""
"""For /bin/sh, which needs no more than 1 MB. It goes on in the background, so it is no child of the parent."""


class OrphanReaper:
    """Ends the process groups of workers, and processes that have their mark, when the parent is gone or says so.

    The reaper's process runs while there are workers. It reads from a pipe whose other end only the parent holds, so it
    notices the parent's end in every case, and exits itself a moment later. Without /bin/sh there is no reaper; workers
    end with the parent all the same.
    """

    def __init__(self) -> None:
        self._pipe = -1
        """The parent's end of the pipe, -1 while there is none."""
        self.begin()

    def begin(self) -> None:
        """Begin anew, without workers; in a forked child too, for those of its parent are not its own."""
        self._close_pipe()
        self.token = secrets.token_hex(8)
        self._count = 0
        self._watched: set[int] = set()
        self._lock = threading.RLock()

    def new_mark(self) -> str:
        """A mark for a worker that is about to start."""
        # A process that another thread forks while the reaper starts would hold a pipe of `subprocess` open, which is
        # waited for. A fork takes this lock before all others.
        with FORK_LOCK, self._lock:
            if self._pipe < 0:
                self._pipe = _start(self.token)
            self._count += 1
            return f"{self.token}.{self._count}."

    def watch(self, pid: int) -> None:
        """A worker was started, which leads a process group."""
        with self._lock:
            self._watched.add(pid)
            self._write(f"+ {pid}")

    def forget(self, pid: int | None, mark: str, ended_well: bool) -> None:
        """A worker has ended (None: it was not started). Its group gets a second to end; none if it did not end well.

        Children with a session of their own are left alone if their env had its chance to end them.
        """
        with self._lock:
            if pid is not None:
                self._watched.discard(pid)
                self._write(f"{'-' if ended_well else 'x'} {pid} {mark}")
            if not self._watched:
                self._close_pipe()

    def _close_pipe(self) -> None:
        pipe, self._pipe = self._pipe, -1  # first: after an interrupt it is not closed again
        if pipe >= 0:
            os.close(pipe)

    def _write(self, line: str) -> None:
        if self._pipe >= 0:
            with contextlib.suppress(OSError):  # it has ended
                os.write(self._pipe, f"{line}\n".encode())


def _start(token: str) -> int:
    """Start the reaper's process; returns the parent's end of its pipe, or -1 without /bin/sh."""
    theirs, ours = os.pipe()
    os.set_blocking(ours, False)
    try:
        # Its environment is empty: else, in a worker of another vector env, it would have that one's mark.
        subprocess.run(
            [_SHELL, "-c", _SCRIPT, "vecenv-reaper", token],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
            check=False,
        )
    except BaseException as error:
        os.close(ours)
        if isinstance(error, OSError):
            return -1
        raise
    finally:
        os.close(theirs)
    return ours


REAPER = OrphanReaper()
"""The reaper of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REAPER.begin)
