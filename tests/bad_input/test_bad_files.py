"""Files that are not what they should be. Every loader says what is wrong, and changes nothing."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.test_bad_input import in_a_fork, refused
from tests.twins import SampleEnv
from vecenv.buffers import ReplayBuffer
from vecenv.errors import ConfigError, SpaceError, UnsafeFile
from vecenv.sb3 import DummyVecEnv, VecNormalize
from vecenv.trainers import PPO, PPOConfig

BOX = spaces.Box(-1.0, 1.0, (3,), np.float64)
SMALL = PPOConfig(num_envs=2, rollout_steps=4, hidden=(8,), minibatch=4)


class Note:
    """Pickled, it is a call that makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def env() -> SampleEnv:
    return SampleEnv(BOX, spaces.Discrete(3))


@dataclass
class Loader:
    """How a kind of file is written, and loaded into something whose state can be seen."""

    save: Callable[[Path], None]
    load: Callable[[Path], Any]
    state: Callable[[], Any]
    close: Callable[[], None]


def normalizer() -> Loader:
    saved, venv = VecNormalize(DummyVecEnv([env])), DummyVecEnv([env])
    saved.reset()

    def close() -> None:
        saved.close()
        venv.close()

    return Loader(saved.save, lambda path: VecNormalize.load(path, venv), lambda: vars(venv).keys(), close)


def replay() -> Loader:
    saved, mine = (ReplayBuffer(BOX, spaces.Discrete(3), 8, 2, seed=seed) for seed in (0, 1))
    return Loader(saved.save, mine.load, lambda: pickle.dumps(mine.state_dict()), lambda: None)


def checkpoint() -> Loader:
    trainer, envs = PPO("CartPole-v1", SMALL), vecenv.make("CartPole-v1", 2, autoreset="same-step")
    envs.reset(seed=3)

    def state() -> bytes:
        found = envs.get_state()
        return pickle.dumps([{name: column.tobytes() for name, column in found.columns.items()}, found.ready])

    def close() -> None:
        trainer.close()
        envs.close()

    return Loader(trainer.save, lambda path: PPO.load(path, envs), state, close)


LOADERS = {"normalizer": normalizer, "replay": replay, "checkpoint": checkpoint}


@pytest.fixture(params=LOADERS)
def loader(request: Any) -> Any:
    made = LOADERS[request.param]()
    yield made
    made.close()


def refuses(loader: Loader, path: Path, *kinds: type[Exception], says: str) -> Exception:
    """Loading raises all these, tells the path and what to do, and nothing has changed."""
    before = loader.state()
    error = refused(lambda: loader.load(path), *kinds, says=f"{path.name} & {says}")
    assert loader.state() == before
    return error


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> None:
    """The archive with other entries."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def npy(array: np.ndarray) -> bytes:
    import io

    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def test_the_files_themselves_are_loaded(loader: Loader, tmp_path: Path) -> None:
    loader.save(tmp_path / "file")
    loader.load(tmp_path / "file")


# --- 74, 75: files that would run code -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_unsafe_and_is_not_run(loader: Loader, tmp_path: Path, protocol: int) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps(Note(tmp_path / "ran"), protocol))
    refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says="pickle|no archive & nothing was loaded")
    assert os.listdir(tmp_path) == ["file"]


def test_arrays_of_objects_are_unsafe_and_are_not_run(loader: Loader, tmp_path: Path) -> None:
    loader.save(tmp_path / "file")
    array = np.array([Note(tmp_path / "ran")] * 3, object)

    def change(entries: dict[str, bytes]) -> None:
        for name in entries:
            if name not in ("header.json", "about.npy"):
                entries[name] = npy(array)

    rewritten(tmp_path / "file", change)
    refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says="Python objects & run code & nothing was loaded")
    assert os.listdir(tmp_path) == ["file"]


# --- 76: damaged files -----------------------------------------------------------------------------------------------

DAMAGED = {
    "empty": (lambda data: b"", "empty"),
    "first half": (lambda data: data[: len(data) // 2], "damaged or cut off"),
    "last byte missing": (lambda data: data[:-1], "damaged or cut off"),
    "wrong magic": (lambda data: b"NO" + data[2:], "no archive|damaged"),
    "text": (lambda data: b"mean,var\n0,1\n", "no archive|damaged"),
    "a single array": (lambda data: npy(np.zeros(3)), "no archive|damaged"),
    "zeros": (lambda data: bytes(len(data)), "no archive|damaged"),
}


@pytest.mark.parametrize("wrong", DAMAGED)
def test_damaged_files_are_named(loader: Loader, tmp_path: Path, wrong: str) -> None:
    change, says = DAMAGED[wrong]
    loader.save(tmp_path / "file")
    (tmp_path / "file").write_bytes(change((tmp_path / "file").read_bytes()))
    refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says=f"{says} & nothing was loaded")


def test_a_newer_version_says_that_vecenv_is_too_old(tmp_path: Path) -> None:
    for make_loader, name, old, new in (
        (normalizer, "header.json", b'"version": 1', b'"version": 9'),
        (checkpoint, "about.npy", '"format": 1'.encode("utf-32-le"), '"format": 9'.encode("utf-32-le")),
    ):
        loader = make_loader()
        loader.save(tmp_path / "file")
        rewritten(tmp_path / "file", lambda entries, name=name, old=old, new=new: _replace(entries, name, old, new))
        refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says="version & vecenv")
        loader.close()


def _replace(entries: dict[str, bytes], name: str, old: bytes, new: bytes) -> None:
    assert old in entries[name]
    entries[name] = entries[name].replace(old, new)


def test_a_compressed_archive_is_refused_before_it_is_unpacked(loader: Loader, tmp_path: Path) -> None:
    loader.save(tmp_path / "file")
    rewritten(tmp_path / "file", lambda entries: entries.update(bomb=bytes(10**7)), zipfile.ZIP_DEFLATED)
    refuses(loader, tmp_path / "file", UnsafeFile, says="compressed & nothing was loaded")


def test_an_entry_that_is_missing_is_named(loader: Loader, tmp_path: Path) -> None:
    loader.save(tmp_path / "file")
    names: list[str] = []

    def change(entries: dict[str, bytes]) -> None:
        names.append(next(name for name in entries if name not in ("header.json", "about.npy")))
        del entries[names[0]]

    rewritten(tmp_path / "file", change)
    refuses(loader, tmp_path / "file", UnsafeFile, says="missing|no |damaged & nothing was loaded")


# --- 77: files of something else -------------------------------------------------------------------------------------


def test_statistics_of_other_observations_name_both_shapes(tmp_path: Path) -> None:
    loader = normalizer()
    loader.save(tmp_path / "file")
    dict_space = spaces.Dict({"cam": spaces.Box(-1, 1, (4,)), "pos": BOX})
    for space in (spaces.Box(-1.0, 1.0, (4,)), dict_space):
        venv = DummyVecEnv([lambda space=space: SampleEnv(space, spaces.Discrete(3))])
        says = r"file & \(3,\) & \(4,\)" + (" & cam" if space is dict_space else "")
        refused(lambda venv=venv: VecNormalize.load(tmp_path / "file", venv), SpaceError, ValueError, says=says)
        venv.close()
    loader.close()


def test_a_replay_buffer_of_another_size_names_both(tmp_path: Path) -> None:
    ReplayBuffer(BOX, spaces.Discrete(3), 16, 2).save(tmp_path / "file")
    loader = replay()
    refuses(
        loader, tmp_path / "file", ConfigError, ValueError, says=r"made with & \[16, 3\] & \[8, 3\] & same arguments"
    )


def test_a_checkpoint_of_another_number_of_envs_names_both(tmp_path: Path) -> None:
    trainer = PPO("CartPole-v1", SMALL)
    trainer.save(tmp_path / "file")
    trainer.close()
    with vecenv.make("CartPole-v1", 3, autoreset="same-step") as envs:
        refused(lambda: PPO.load(tmp_path / "file", envs), ConfigError, says="of 2 envs, these are 3 & pass 2")


def test_a_checkpoint_of_other_observations_is_refused(tmp_path: Path) -> None:
    trainer = PPO("CartPole-v1", SMALL)
    trainer.save(tmp_path / "file")
    trainer.close()
    with vecenv.make("Acrobot-v1", 2, autoreset="same-step") as envs:
        envs.reset(seed=1)
        before = envs.get_state().columns
        refused(lambda: PPO.load(tmp_path / "file", envs), vecenv.errors.VecenvError, ValueError, says="Acrobot|file")
        after = envs.get_state().columns
        assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)


# --- 78: numbers that cannot be --------------------------------------------------------------------------------------

WRONG_NUMBERS = {
    "NaN": ("obs.0.mean.npy", np.array([0, np.nan, 0]), "finite"),
    "infinity": ("obs.0.var.npy", np.array([1, np.inf, 1]), "finite"),
    "negative variance": ("obs.0.var.npy", np.array([1, -1e-9, 1]), "negative variance or count"),
    "float32": ("obs.0.mean.npy", np.zeros(3, np.float32), "float64"),
    "returns": ("returns.var.npy", np.array(-1.0), "negative variance or count"),
}


@pytest.mark.parametrize("wrong", WRONG_NUMBERS)
def test_statistics_that_cannot_be_are_refused(tmp_path: Path, wrong: str) -> None:
    name, array, says = WRONG_NUMBERS[wrong]
    loader = normalizer()
    loader.save(tmp_path / "file")
    rewritten(tmp_path / "file", lambda entries: entries.update({name: npy(array)}))
    refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says=f"{says} & nothing was loaded")
    loader.close()


@pytest.mark.parametrize("count", [-1, "NaN", "-Infinity", '"3"', "null", "[]"])
def test_counts_that_cannot_be_are_refused(tmp_path: Path, count: Any) -> None:
    loader = normalizer()
    loader.save(tmp_path / "file")

    def change(entries: dict[str, bytes]) -> None:
        header = json.loads(entries["header.json"])
        header["returns_count"] = "HERE"
        entries["header.json"] = json.dumps(header).replace('"HERE"', str(count)).encode()

    rewritten(tmp_path / "file", change)
    if count == '"3"':
        loader.load(tmp_path / "file")  # a number all the same
    else:
        refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says="nothing was loaded")
    loader.close()


@pytest.mark.parametrize(
    ("name", "value"), [("head", -1), ("head", 4), ("head", 2**62), ("stored", -1), ("stored", 5), ("highest", np.nan)]
)
def test_places_outside_a_replay_buffer_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    loader = replay()
    loader.save(tmp_path / "file")

    def change(entries: dict[str, bytes]) -> None:
        array = np.load(_stream(entries[f"{name}.npy"]))
        array[0] = value
        entries[f"{name}.npy"] = npy(array)

    rewritten(tmp_path / "file", change)
    refuses(loader, tmp_path / "file", UnsafeFile, ValueError, says="damaged & nothing was loaded")


def _stream(data: bytes) -> Any:
    import io

    return io.BytesIO(data)


# --- 79: paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("none", FileNotFoundError), ("folder", IsADirectoryError)])
def test_paths_that_are_no_files_are_errors_of_the_system(
    loader: Loader, tmp_path: Path, name: str, kind: type[OSError]
) -> None:
    (tmp_path / "folder").mkdir()
    before = loader.state()
    with pytest.raises(kind, match=name):
        loader.load(tmp_path / name)
    assert loader.state() == before


def test_a_file_that_may_not_be_read_is_a_permission_error(loader: Loader, tmp_path: Path) -> None:
    loader.save(tmp_path / "file")
    (tmp_path / "file").chmod(0)

    def attempt() -> str:
        if os.geteuid() == 0:
            os.seteuid(65534)  # nobody: root may read anything
        try:
            loader.load(tmp_path / "file")
        except PermissionError as error:
            return f"refused: {error.filename}"
        return "read"

    for folder in (tmp_path, *tmp_path.parents):  # pytest's own folders are closed to others
        if folder.owner() == tmp_path.owner() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    assert in_a_fork(attempt) == f"refused: {tmp_path / 'file'}"


def test_a_run_is_a_folder_among_the_runs(tmp_path: Path) -> None:
    from vecenv.cli._run_files import new_run

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text("{}")
    for name in ("../other", "..", ".", "", str(tmp_path / "other"), "a/b"):
        call = lambda name=name: new_run(tmp_path / "runs", name, "usual", True)  # noqa: E731
        refused(call, ConfigError, ValueError, says="--name must be the name of a folder, got & --runs-dir")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["config.json", "other"]
