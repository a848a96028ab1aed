"""Damage that is drawn from a seed, and a look at what a loader does with it."""

from __future__ import annotations

import contextlib
import io
import resource
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vecenv.errors import VecenvError

MEMORY = 768 << 20
"""Bytes that loading a file of some kilobytes may take, with all that torch does on the side."""
SECONDS = 10.0
"""Of one file, on a machine that is busy with other things."""
WORDS = [b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"[]", b"{}", b'"x"', b"\x00", b"9" * 400, b"[" * 3000,
         b"true", b"../../../etc/passwd", b"\xff\xfe", b"=cmd()", b"0", b'"os:system"', b"1.5"]  # fmt: skip

TRIED: Counter[str] = Counter()
"""Files in this session."""

Damage = Callable[[bytes, np.random.Generator], bytes]


def flip(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bits are others."""
    wrong = bytearray(data)
    for _ in range(rng.integers(1, 9)):
        wrong[rng.integers(len(wrong))] ^= 1 << rng.integers(8)
    return bytes(wrong)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """The end is missing."""
    return data[: rng.integers(len(data))]


def garbage(data: bytes, rng: np.random.Generator) -> bytes:
    """A part is noise."""
    begin, end = _part(data, rng)
    return data[:begin] + rng.bytes(end - begin) + data[end:]


def zeros(data: bytes, rng: np.random.Generator) -> bytes:
    """A part is zeros, as after a crash of a machine."""
    begin, end = _part(data, rng)
    return data[:begin] + bytes(end - begin) + data[end:]


def missing(data: bytes, rng: np.random.Generator) -> bytes:
    """A part is gone."""
    begin, end = _part(data, rng)
    return data[:begin] + data[end:]


def doubled(data: bytes, rng: np.random.Generator) -> bytes:
    """A part comes twice."""
    begin, end = _part(data, rng)
    return data[:end] + data[begin:]


def swapped(data: bytes, rng: np.random.Generator) -> bytes:
    """Two parts have changed places."""
    edges = np.sort(rng.integers(0, len(data) + 1, 4)).tolist()
    first, second, third, fourth = edges
    return data[:first] + data[third:fourth] + data[second:third] + data[first:second] + data[fourth:]


def inserted(data: bytes, rng: np.random.Generator) -> bytes:
    """Something foreign is inside."""
    place = int(rng.integers(len(data) + 1))
    return data[:place] + rng.bytes(int(rng.integers(1, 64))) + data[place:]


def reworded(data: bytes, rng: np.random.Generator) -> bytes:
    """A number or word in a text is another."""
    begin = int(rng.integers(len(data)))
    ends = [found for sign in b',:\n }"]' if (found := data.find(bytes([sign]), begin + 1)) > 0]
    return data[:begin] + WORDS[rng.integers(len(WORDS))] + data[min(ends, default=len(data)) :]


DAMAGES: tuple[Damage, ...] = (flip, cut, garbage, zeros, missing, doubled, swapped, inserted, reworded)


def inside(damage: Damage) -> Damage:
    """The same to one entry of an archive, whose checksums are right again afterwards: as an attacker would."""

    def change(data: bytes, rng: np.random.Generator) -> bytes:
        entries = entries_of(data)
        name = list(entries)[rng.integers(len(entries))]
        if entries[name]:
            entries[name] = damage(entries[name], rng)
        return archive_of(entries)

    return change


def entries_swapped(data: bytes, rng: np.random.Generator) -> bytes:
    """Two entries of an archive have each other's content."""
    entries = entries_of(data)
    first, second = (list(entries)[place] for place in rng.integers(0, len(entries), 2))
    entries[first], entries[second] = entries[second], entries[first]
    return archive_of(entries)


def told_wrong(data: bytes, rng: np.random.Generator) -> bytes:
    """The text about the arrays has a wrong word or part, and is well stored."""
    entries = entries_of(data)
    if "about.npy" not in entries:
        return archive_of({**entries, "header.json": reworded(entries["header.json"], rng)})
    text = str(np.load(io.BytesIO(entries["about.npy"]))).encode()
    wrong = DAMAGES[rng.integers(len(DAMAGES))](text, rng) if rng.random() < 0.3 else reworded(text, rng)
    return archive_of({**entries, "about.npy": npy(np.array(wrong.decode("latin1")))})


def numbers_wrong(data: bytes, rng: np.random.Generator) -> bytes:
    """Some numbers of an array are impossible, and are well stored."""
    entries = entries_of(data)
    names = [name for name in entries if name not in ("about.npy", "header.json")]
    name = names[rng.integers(len(names))]
    array = np.load(io.BytesIO(entries[name]))
    if array.size:
        extreme = _EXTREMES[rng.integers(len(_EXTREMES))]
        with np.errstate(all="ignore"):
            wrong = (
                np.float64(extreme).astype(array.dtype) if array.dtype.kind == "f" else _wrapped(extreme, array.dtype)
            )
        array.reshape(-1)[rng.integers(0, array.size, 3)] = wrong
    return archive_of({**entries, name: npy(array)})


_EXTREMES = (np.nan, np.inf, -np.inf, -1.0, 1e300, 2.0**62, -(2.0**62), 255.0, 7.0)


def _wrapped(number: float, dtype: np.dtype) -> Any:
    whole = int(number) if np.isfinite(number) else -(2**63)
    return np.array([whole % 2**64], np.uint64).astype(dtype)[0]


ARCHIVE_DAMAGES: tuple[Damage, ...] = (
    *DAMAGES, *map(inside, DAMAGES), entries_swapped, *(told_wrong,) * 8, *(numbers_wrong,) * 8,
)  # fmt: skip


def entries_of(data: bytes) -> dict[str, bytes]:
    """What is in a zip archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(array: np.ndarray) -> bytes:
    """An array as NumPy stores it, of Python objects too."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def archive_of(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return stream.getvalue()


@dataclass
class Loader:
    """A loader, and something that it loads into.

    Attributes:
        data: a right file.
        load: reads a file.
        state: of what it is loaded into, to be compared.
        name: of the file.
    """

    data: bytes
    load: Callable[[Path], Any]
    state: Callable[[], Any]
    name: str = "file.dat"
    result: Counter[str] = field(default_factory=Counter)

    def attempt(self, data: bytes, folder: Path) -> VecenvError | None:
        """Load this; the error if there was one. Anything but an error of ours, and any change, is a failure."""
        path = folder / self.name
        path.write_bytes(data)
        TRIED["files"] += 1
        files, before = sorted(folder.rglob("*")), self.state()
        started = time.monotonic()
        try:
            with bounded():
                self.load(path)
        except VecenvError as error:
            refusal = error
        else:
            refusal = None
        assert time.monotonic() - started < SECONDS
        assert sorted(folder.rglob("*")) == files, "files were made"
        self.result["loaded" if refusal is None else "refused"] += 1
        if refusal is not None:
            assert folder.name in str(refusal) or self.name in str(refusal), f"which file? {refusal}"
            assert len(str(refusal)) < 5000
            assert self.state() == before, f"changed, although it was refused: {refusal}"
        return refusal

    def fuzz(self, folder: Path, count: int, damages: tuple[Damage, ...], seed: int = 0) -> None:
        """Try `count` damaged files. `seed` and the number in the message repeat one that fails."""
        for number in range(count):
            rng = np.random.default_rng([seed, number])
            damage = damages[number % len(damages)]
            data = damage(self.data, rng)
            try:
                self.attempt(data, folder)
            except BaseException as error:
                raise AssertionError(
                    f"file {number} of seed {seed} ({getattr(damage, '__name__', damage)}): {error!r:.500}"
                ) from error


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Whoever takes more memory than MEMORY gets a MemoryError."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _part(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    begin = int(rng.integers(len(data)))
    return begin, min(len(data), begin + int(rng.integers(1, max(2, len(data) // 4))))
