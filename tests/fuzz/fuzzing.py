"""Damage that is drawn from a seed, and a look at what a loader does with it."""

from __future__ import annotations

import contextlib
import io
import json
import pickletools
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


def both(first: Damage, second: Damage) -> Damage:
    """One damage after the other."""
    return lambda data, rng: second(first(data, rng) or b"x", rng)


def json_wrong(data: bytes, rng: np.random.Generator) -> bytes:
    """One value of a JSON text, wherever it is nested, is another."""
    whole: list[Any] = [json.loads(data)]
    holder: Any = whole
    key: Any = 0
    while isinstance(holder[key], (dict, list)) and holder[key] and rng.random() < 0.85:
        holder = holder[key]
        key = list(holder)[rng.integers(len(holder))] if isinstance(holder, dict) else int(rng.integers(len(holder)))
    holder[key] = _VALUES[rng.integers(len(_VALUES))]
    return json.dumps(whole[0]).encode()


def inside_json(data: bytes, rng: np.random.Generator) -> bytes:
    """The same to the text about the arrays of an archive, which is well stored."""
    entries = entries_of(data)
    if "header.json" in entries:
        return archive_of({**entries, "header.json": json_wrong(entries["header.json"], rng)})
    if "about.npy" not in entries:
        return data
    text = str(np.load(io.BytesIO(entries["about.npy"]))).encode()
    return archive_of({**entries, "about.npy": npy(np.array(json_wrong(text, rng).decode()))})


def header_wrong(data: bytes, rng: np.random.Generator) -> bytes:
    """An array of an archive says that it has another dtype or shape."""
    entries = entries_of(data)
    names = [name for name in entries if name.endswith(".npy")]
    if not names:
        return data
    name = names[rng.integers(len(names))]
    stream = io.BytesIO(entries[name])
    np.lib.format.read_magic(stream)
    shape, order, dtype = np.lib.format.read_array_header_1_0(stream)
    said = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": order, "shape": shape}
    part = ("descr", "shape", "fortran_order")[rng.integers(3)]
    said[part] = _HEADERS[part][rng.integers(len(_HEADERS[part]))]
    text = repr(said).ljust(117) + "\n"
    wrong = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + stream.read()
    return archive_of({**entries, name: wrong})


def opcodes_wrong(data: bytes, rng: np.random.Generator) -> bytes:
    """Instructions of a pickle are missing, twice, in another order, or others; names in it are of other things."""
    starts = [place for _, _, place in pickletools.genops(data) if place is not None]
    parts = [data[begin:end] for begin, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(rng.integers(1, 4)):
        place, other = rng.integers(0, len(parts), 2).tolist()
        choice = rng.integers(5)
        if choice == 0:
            parts[place] = b""
        elif choice == 1:
            parts[place] *= 2
        elif choice == 2:
            parts[place], parts[other] = parts[other], parts[place]
        elif choice == 3:
            parts[place] = _OPCODES[rng.integers(len(_OPCODES))]
        else:
            parts[place] = _OPCODES[rng.integers(len(_OPCODES))] + parts[place]
    return b"".join(parts)


def cells_wrong(data: bytes, rng: np.random.Generator) -> bytes:
    """Cells of a table are others, missing or too many."""
    lines = data.split(b"\r\n")
    for _ in range(rng.integers(1, 4)):
        number = int(rng.integers(len(lines)))
        cells = lines[number].split(b",")
        cells[rng.integers(len(cells))] = WORDS[rng.integers(len(WORDS))] * int(rng.integers(0, 3))
        lines[number] = b",".join(cells)
    return b"\r\n".join(lines)


_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1e308, -0.5, "", "x" * 1000, "os:system", "../../file", [], {}, [[[[]]]],
    {"a": {"b": []}}, "CartPole-v1", "\ud800", "nan", "<f8", [1e9, 1e9], 10**9,
)  # fmt: skip
_HEADERS: dict[str, tuple[Any, ...]] = {
    "descr": ("<f8", "|V0", "<U0", "|O", "<f4", ">f8", "|S1", "<i8", "|u1", "<M8[s]", "<c16", "|V9999999", "?", "x", 7),
    "shape": ((), (0,), (1,), (-1,), (10**12,), (10**12, 0), (2**63,), (1,) * 40, (3, -3), 7, (1.5,), ("x",), (True,)),
    "fortran_order": (True, False, 1, "x", None),
}
_OPCODES = (
    b"cos\nsystem\n", b"cbuiltins\neval\n", b"cnumpy\nndarray\n", b"(", b")", b"}", b"]", b"N", b"R", b"b", b"0", b"2",
    b"\x81", b"\x85", b"\x93", b"\x94", b"s", b"u", b"a", b"e", b"h\x00", b"j\xff\xff\xff\x7f", b"Q", b".",
    b"X\x04\x00\x00\x00evil", b"I99999999999\n", b"\x8a\xff" + b"\x7f" * 255, b"B\xff\xff\xff\x7f",
    b"\x8e" + b"\xff" * 8, b"\x80\x05",
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
        load: reads a file; may return what it read, to be compared.
        state: of what it is loaded into, to be compared.
        name: of the file.
    """

    data: bytes
    load: Callable[[Path], Any]
    state: Callable[[], Any]
    name: str = "file.dat"
    result: Counter[str] = field(default_factory=Counter)
    loaded: Any = None
    """What `load` returned last, to be compared."""

    def attempt(self, data: bytes, folder: Path) -> VecenvError | None:
        """Load this; the error if there was one. Anything but an error of ours, and any change, is a failure."""
        path = folder / self.name
        path.write_bytes(data)
        TRIED["files"] += 1
        files, before = sorted(folder.rglob("*")), self.state()
        started = time.monotonic()
        try:
            with bounded():
                self.loaded = self.load(path)
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
    most = taken + MEMORY if hard == resource.RLIM_INFINITY else min(taken + MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _part(data: bytes, rng: np.random.Generator) -> tuple[int, int]:
    begin = int(rng.integers(len(data)))
    return begin, min(len(data), begin + int(rng.integers(1, max(2, len(data) // 4))))
