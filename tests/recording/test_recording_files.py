"""Files of recordings: what was saved is what is loaded, and nothing else is ever taken for one."""

import hashlib
import io
import json
import os
import pickle
import stat
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import GraphInstance

from vecenv._batch.random_state import set_words, words_of
from vecenv.engines.recording.digests import digest_rows
from vecenv.engines.recording.values import NotData, pack, unpack
from vecenv.errors import UnsafeFile
from vecenv.recording import Recording

FAILURE = {"kind": "raised", "phase": "step", "type": "ValueError", "message": "no"}


def recording(**changes):
    given = {
        "row": 1,
        "num_envs": 3,
        "engine": "process",
        "autoreset": "same-step",
        "versions": {"vecenv": "0.1.0", "numpy": np.__version__},
        "build": {
            "kind": "id",
            "id": "CartPole-v1",
            "kwargs": {"sutton": True, "weights": np.arange(3.0)},
            "wrappers": [],
        },
        "start": {"kind": "random-state", "words": np.arange(6, dtype=np.uint64)},
        "options": {"kind": "value", "value": {"low": -0.1, "place": (1, np.float32(2))}},
        "action_paths": ("",),
        "obs_paths": ("image", "name"),
        "actions": (np.array([0, 1, 1]),),
        "obs": (np.array([5, 6, 7], np.uint64), ("a", "b", GraphInstance(np.ones((2, 1)), None, None))),
        "digested": (True, False),
        "reward": np.array([1.0, np.nan]),
        "terminated": np.zeros(2, np.bool_),
        "truncated": np.zeros(2, np.bool_),
        "steps": 3,
        "failure": FAILURE,
        "problems": ("kwargs['lock'] is a _thread.lock",),
    }
    return Recording(**{**given, **changes})


def same(one, other):
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert type(one) is type(other)
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            same(*pair)
    else:
        assert type(one) is type(other)
        assert one == other or one != one


def same_recordings(one, other):
    for entry in fields(Recording):
        same(getattr(one, entry.name), getattr(other, entry.name))


@pytest.fixture
def saved(tmp_path):
    return recording().save(tmp_path / "episode.npz")


def test_what_was_saved_is_loaded(saved):
    same_recordings(recording(), Recording.load(saved))


@pytest.mark.parametrize(
    "changes",
    [
        {"given": {0: [1, "odd"], 2: None}},
        {"start": {"kind": "seed", "seed": 2**63 - 1}, "options": {"kind": "none"}, "failure": None, "steps": 2}
        | {"actions": (np.array([0, 1]),)},
        {"start": {"kind": "kernel-state", "columns": {"x": np.ones(1), "STREAM": np.ones((1, 6), np.uint64)}}},
        {"build": {"kind": "unknown", "repr": "<lambda>", "why": "it is a lambda"}, "complete": False},
        {"steps": 0, "actions": (np.zeros(0, np.int64),), "obs": (np.zeros(0, np.uint64), ()), "reward": np.zeros(0)}
        | {"terminated": np.zeros(0, np.bool_), "truncated": np.zeros(0, np.bool_)}
        | {"failure": {**FAILURE, "phase": "reset"}},
        {"actions": (None,), "obs": (np.array([5, 6, 7], np.uint64), None)},
    ],
)  # fmt: skip
def test_every_kind_of_recording_survives(tmp_path, changes):
    one = recording(**changes)
    same_recordings(one, Recording.load(one.save(tmp_path / "one.npz")))


def test_a_file_is_for_its_owner_alone_and_numpy_can_open_it(saved):
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    with np.load(saved, allow_pickle=False) as arrays:
        assert json.loads(arrays["header.json"])["format"] == "vecenv.Recording"
        assert all(arrays[name].dtype.kind in "biufc" for name in arrays.files if name != "header.json")


def test_nothing_is_replaced_and_nothing_is_left_behind(saved):
    before = saved.read_bytes()
    with pytest.raises(FileExistsError, match="is not replaced"):
        recording(row=2).save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(NotData, match=r"build\['kwargs'\]\['f'\] is a builtins.function"):
        recording(build={"kind": "id", "id": "x", "kwargs": {"f": test_every_kind_of_recording_survives}}).save(
            tmp_path / "one.npz"
        )
    with pytest.raises(FileNotFoundError):
        recording().save(tmp_path / "missing" / "one.npz")
    assert os.listdir(tmp_path) == []


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        Recording.load(tmp_path / "none.npz")


# --- hostile and damaged files ---------------------------------------------------------------------------------------


def test_every_flipped_byte_is_noticed_or_harmless(saved, tmp_path):
    """Bytes that mean nothing (times of the zip's entries) may be anything; what is loaded is what was saved."""
    original, whole = recording(), saved.read_bytes()
    damaged, refused, harmless = tmp_path / "damaged.npz", 0, 0
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        damaged.write_bytes(data)
        try:
            loaded = Recording.load(damaged)
        except UnsafeFile as error:
            refused += f"{damaged}" in str(error) and "nothing was loaded" in str(error)
        else:
            same_recordings(original, loaded)
            harmless += 1
    assert refused + harmless == len(whole)
    assert refused > len(whole) * 0.8


def test_every_truncation_is_noticed(saved, tmp_path):
    whole, damaged = saved.read_bytes(), tmp_path / "damaged.npz"
    for length in range(0, len(whole), 7):
        damaged.write_bytes(whole[:length])
        with pytest.raises(UnsafeFile, match="nothing was loaded"):
            Recording.load(damaged)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (str(Bomb.place),)

    place = Path("never")


def _zip(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def _npy(array, **kwargs):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **kwargs)
    return buffer.getvalue()


def _header(**changes):
    header = {"format": "vecenv.Recording", "version": 1, "contents": "{}", "sha256": hashlib.sha256(b"{}").hexdigest()}
    return json.dumps({**header, **changes})


def _huge(shape):
    """An array that says it is large and has eight bytes."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(8)


def test_hostile_files_are_refused_and_run_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(Bomb, "place", tmp_path / "executed")
    with_objects = _npy(np.array([Bomb()], object), allow_pickle=True)
    nested = json.dumps([[]]).replace("[]", "[" * 50_000 + "]" * 50_000)
    hostile = {
        "a pickle": pickle.dumps(Bomb()),
        "an npy of objects": with_objects,
        "an empty file": b"",
        "text": b"hello",
        "objects": {"header.json": _header(), "0.npy": with_objects},
        "text arrays": {"header.json": _header(), "0.npy": _npy(np.array(["a"]))},
        "records": {"header.json": _header(), "0.npy": _npy(np.zeros(1, "i4,f8"))},
        "a huge shape": {"header.json": _header(), "0.npy": _huge((10**12,))},
        "an overflowing shape": {"header.json": _header(), "0.npy": _huge((2**40, 2**40))},
        "a negative shape": {"header.json": _header(), "0.npy": _huge((-1, -1))},
        "another order": {"header.json": _header(), "0.npy": _npy(np.asfortranarray(np.ones((2, 2))))},
        "no header": {"0.npy": _npy(np.zeros(1))},
        "other entries": {"header.json": _header(), "../../etc/passwd": b""},
        "a header that is a list": {"header.json": "[]"},
        "a header of another format": {"header.json": _header(format="x")},
        "a later version": {"header.json": _header(version=2)},
        "contents of nothing": {"header.json": _header()},
        "contents that are no text": {"header.json": _header(contents={})},
        "a header without contents": {"header.json": '{"format": "vecenv.Recording", "version": 1}'},
        "nesting": {"header.json": _header(contents=nested, sha256=hashlib.sha256(nested.encode()).hexdigest())},
    }
    for name, entries in hostile.items():
        path = tmp_path / "hostile.npz"
        if isinstance(entries, bytes):
            path.write_bytes(entries)
        else:
            _zip(path, entries)
        with pytest.raises(UnsafeFile, match="nothing was loaded") as caught:
            Recording.load(path)
        assert str(path) in str(caught.value), name
    assert not Bomb.place.exists()


def test_zip_bombs_are_not_unpacked(tmp_path):
    bomb = _zip(tmp_path / "bomb.npz", {"header.json": _header(), "0.npy": bytes(10**7)}, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 20_000
    with pytest.raises(UnsafeFile, match="compressed"):
        Recording.load(bomb)
    overlapping = _zip(tmp_path / "overlap.npz", {"header.json": _header()})
    with zipfile.ZipFile(overlapping, "a") as archive:
        for place in range(1000):
            archive.filelist.append(_pretending(archive.filelist[0], f"{place}.npy", 10**6))
        archive._didModify = True
    with pytest.raises(UnsafeFile, match="lists more bytes"):
        Recording.load(overlapping)


def _pretending(entry, name, size):
    other = zipfile.ZipInfo(name)
    other.header_offset, other.CRC, other.compress_size, other.file_size = entry.header_offset, entry.CRC, size, size
    return other


@pytest.mark.parametrize(
    "changes",
    [
        {"row": 3},
        {"row": True},
        {"steps": 4},
        {"steps": 2},
        {"reward": np.zeros(2, np.float32)},
        {"reward": np.zeros((2, 1))},
        {"terminated": np.zeros(2)},
        {"truncated": np.zeros(3, np.bool_)},
        {"actions": (np.array([0, 1]),)},
        {"actions": (np.array(1),)},
        {"actions": ("abc",)},
        {"action_paths": ("", "x")},
        {"obs": (np.array([5, 6, 7]), ("a", "b", "c"))},
        {"digested": (1, 0)},
        {"given": {5: 0}},
        {"given": {"0": 0}},
        {"versions": {"numpy": 2}},
        {"build": {"kind": "id", "id": 3}},
        {"build": {"kind": "shell"}},
        {"build": {"kind": "reference", "where": "os:system", "args": "rm"}},
        {"build": {"kind": "id", "id": "x", "kwargs": {3: 4}}},
        {"build": {"kind": "id", "id": "x", "wrappers": [{"kind": "id", "id": "y"}]}},
        {"start": {"kind": "seed", "seed": -1}},
        {"start": {"kind": "seed", "seed": 1.0}},
        {"start": {"kind": "random-state", "words": np.zeros(5, np.uint64)}},
        {"start": {"kind": "kernel-state", "columns": {"x": 3}}},
        {"start": {"kind": "unknown"}},
        {"options": {"kind": "value"}},
        {"failure": {"kind": "raised"}},
        {"failure": {"kind": "bored", "phase": "step", "message": ""}},
        {"complete": 1},
    ],
)
def test_contents_that_do_not_fit_together_are_refused(tmp_path, changes):
    """Whoever writes a file with a right hash can still not make it something else."""
    path = replace(recording(), **changes).save(tmp_path / "odd.npz")
    with pytest.raises(UnsafeFile, match="nothing was loaded"):
        Recording.load(path)


# --- its parts -------------------------------------------------------------------------------------------------------


def test_values_come_back_as_they_were():
    value = {"a": [1, 2.5, None, True, "x", (np.int8(3), np.zeros((0, 2)))], 4: {"b": np.array(1.5)}}
    arrays = []
    same(unpack(json.loads(json.dumps(pack(value, arrays, "value"))), arrays), value)


def test_what_is_no_data_is_named():
    for value, words in (
        ({"lock": pytest}, r"kwargs\['lock'\] is a builtins.module"),
        ([0, {1: b"x"}], r"kwargs\[1\]\[1\] is a builtins.bytes"),
        ({(1, 2): 3}, "a key of kwargs is a builtins.tuple"),
        (np.array([None]), "kwargs is a numpy.ndarray"),
    ):
        with pytest.raises(NotData, match=words):
            pack(value, [], "kwargs")


def test_words_are_the_place_of_a_stream():
    generator = np.random.default_rng(7)
    generator.integers(0, 10, dtype=np.int32)  # half a draw is kept
    words = words_of(generator)
    other = np.random.default_rng(1)
    set_words(other, np.array(words, np.uint64))
    assert other.bit_generator.state == generator.bit_generator.state
    assert np.array_equal(generator.random(5), other.random(5))


def test_other_streams_have_no_words():
    assert words_of(np.random.Generator(np.random.Philox(1))) is None
    assert words_of(np.random.RandomState(1)) is None
    assert words_of(None) is None
    with pytest.raises(ValueError, match="Philox"):
        set_words(np.random.Generator(np.random.Philox(1)), range(6))
    for words in (range(5), [0, 0, 0, 1, 2, 0], [0, 0, 0, 2, 0, 0], [0, 0, 0, 1, 0, 2**32], [-1, 0, 0, 1, 0, 0]):
        with pytest.raises(ValueError, match="words"):
            set_words(np.random.default_rng(0), words)


def test_digests_tell_rows_apart_and_do_not_depend_on_the_batch():
    frames = np.random.default_rng(0).integers(0, 256, (200, 21, 31, 3), dtype=np.uint8)
    assert len(set(digest_rows(frames).tolist())) == 200
    assert digest_rows(frames[7:8])[0] == digest_rows(frames)[7]
    assert digest_rows(frames[:, ::-1])[3] == digest_rows(frames[:, ::-1].copy())[3]
    for place in range(21 * 31 * 3):
        other = frames[:1].copy()
        other.reshape(-1)[place] ^= 1
        assert digest_rows(other)[0] != digest_rows(frames)[0]
