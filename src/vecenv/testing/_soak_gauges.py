"""Resources of a process and its children: memory, descriptors, threads, shared memory. Read from /proc."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Gauges:
    """Resources of this process and all its descendants together: numbers, and bytes of memory.

    Attributes:
        memory: RAM with shared pages counted once (the sum of proportional set sizes).
        rss: RAM as the system counts it per process (the sum of resident set sizes).
        descriptors: open files.
        shared: vecenv's shared memory.
    """

    processes: int
    memory: int
    rss: int
    descriptors: int
    threads: int
    shared: int

    @classmethod
    def read(cls) -> Gauges:
        """The current values."""
        found = [_of_process(pid) for pid in family()]
        known = [one for one in found if one is not None]
        blocks = {key: size for _, shared in known for key, size in shared.items()}
        memory, rss, descriptors, threads = map(sum, zip(*(numbers for numbers, _ in known), strict=True))
        return cls(len(known), memory, rss, descriptors, threads, sum(blocks.values()))


def family() -> list[int]:
    """This process and all its descendants, except zombies."""
    parents: dict[int, list[int]] = {}
    for entry in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            words = entry.read_text().rpartition(")")[2].split()
            if words[0] not in "ZX":
                parents.setdefault(int(words[1]), []).append(int(entry.parent.name))
    found = [os.getpid()]
    for pid in found:  # the loop appends to it
        found += parents.get(pid, [])
    return found


def _of_process(pid: int) -> tuple[tuple[int, int, int, int], dict[tuple[int, int], int]] | None:
    """Memory, RSS, descriptors, threads; and blocks of shared memory of a process. None if it has ended."""
    place = PROC / str(pid)
    try:
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines() if ":" in line)
        rss = int(status["VmRSS"].split()[0]) * 1024
        descriptors, shared = 0, {}
        for link in os.scandir(place / "fd"):
            descriptors += 1
            with contextlib.suppress(OSError):
                if os.readlink(link.path).startswith("/memfd:vecenv"):
                    about = os.stat(link.path)
                    shared[about.st_dev, about.st_ino] = about.st_blocks * 512
        return (_memory(place, rss), rss, descriptors, int(status["Threads"])), shared
    except (OSError, KeyError):
        return None


def _memory(place: Path, otherwise: int) -> int:
    """Proportional set size; `otherwise` if the system does not report it."""
    with contextlib.suppress(OSError):
        for line in (place / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return otherwise
