"""Files made to do harm: none of them runs code, fills memory, takes for ever or writes elsewhere."""

from __future__ import annotations

import builtins
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.fuzz.fuzzing import Loader, archive_of, entries_of, npy
from tests.fuzz.loaders import ARCHIVES, CHECKPOINTS, EVERY, PICKLES, TEXTS, normalizer
from vecenv.cli import main
from vecenv.errors import ConfigError, VecenvError

BOXES = {**ARCHIVES, **CHECKPOINTS}


class Runs:
    """Pickled, it is a call of any function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def touching(marker: Path) -> dict[str, Any]:
    """Objects whose unpickling would make a file."""
    text = f"open({str(marker)!r}, 'w')"
    return {
        "os.system": Runs(os.system, f"touch {marker}"),
        "eval": Runs(builtins.eval, text),
        "exec": Runs(builtins.exec, text),
        "open": Runs(open, str(marker), "w"),
        "subprocess": Runs(subprocess.check_call, ["touch", str(marker)]),
        "getattr": Runs(getattr, Runs(__import__, "os"), "system"),
        "numpy.save": Runs(np.save, str(marker), np.zeros(1)),
        "nested": [{"a": (Runs(os.system, f"touch {marker}"),)}],
    }


@pytest.fixture
def loading(tmp_path: Path) -> Path:
    for name in ("saving", "loading"):
        (tmp_path / name).mkdir()
    return tmp_path / "loading"


def refuses(loader: Loader, data: bytes, loading: Path) -> None:
    """Refused, and no file was made anywhere."""
    error = loader.attempt(data, loading)
    assert error is not None, "it was loaded"
    assert not (loading.parent / "marker").exists()


# --- code ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_pickles_that_run_code_run_none(name: str, loading: Path) -> None:
    with EVERY[name](loading.parent / "saving") as loader:
        for bomb in touching(loading.parent / "marker").values():
            for protocol in (0, 2, 4, 5):
                refuses(loader, pickle.dumps(bomb, protocol), loading)


@pytest.mark.parametrize("name", BOXES)
def test_arrays_of_objects_run_no_code(name: str, loading: Path) -> None:
    with BOXES[name](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        some = list(entries)[:: max(1, len(entries) // 5)]
        for bomb in touching(loading.parent / "marker").values():
            for entry in some:
                held = np.empty(1, object)
                held[0] = bomb
                refuses(loader, archive_of({**entries, entry: npy(held)}), loading)
        record = np.array([(1.0, None)], [("number", "f8"), ("held", "O")])
        for entry in some:
            refuses(loader, archive_of({**entries, entry: npy(record)}), loading)


def test_code_hidden_in_statistics_of_stable_baselines3_runs_not(loading: Path) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from tests.fuzz.loaders import BOX
    from tests.twins import PLAIN, SampleEnv

    with normalizer(loading.parent / "saving", "sb3") as loader:
        for attribute in ("old_reward", "obs_rms", "gamma", "norm_obs_keys", "training", "observation_space"):
            for bomb in touching(loading.parent / "marker").values():
                saved = VecNormalize(DummyVecEnv([lambda: SampleEnv(BOX, PLAIN)]))
                setattr(saved, attribute, bomb)
                refuses(loader, pickle.dumps(saved), loading)


EVIL = "open({marker!r}, 'w').close()\nimport gymnasium\nclass Env(gymnasium.Env): pass\ndef make(**k): return None\n"
WRONG_ENVS: dict[str, tuple[str, dict[str, Any]]] = {
    "os.system": ("os:system", {"command": "touch {marker}"}),
    "subprocess": ("subprocess:run", {"args": "touch {marker}", "shell": True}),
    "a class that is no env": ("subprocess:Popen", {"args": ["touch", "{marker}"]}),
    "open": ("builtins:open", {"file": "{marker}", "mode": "w"}),
    "exec": ("builtins:exec", {}),
    "eval": ("builtins:eval", {}),
    "code in the run": ("{run}/evil.py:Env", {}),
    "code in the run, the long way": ("{run}/checkpoints/../evil.py:Env", {}),
    "a function of the run": ("{run}/evil.py:make", {}),
    "a bare file of the run": ("{run}/evil.py", {}),
    "no name": ("os:", {}),
    "no module": (":system", {}),
    "dots": ("os:path.join.__globals__", {}),
    "deep": ("a" * 5000, {}),
    "a path": ("../../../../etc/passwd", {}),
}


@pytest.mark.parametrize("wrong", WRONG_ENVS)
def test_a_run_that_came_from_elsewhere_calls_nothing_that_is_no_env(
    wrong: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    run, marker = tmp_path / "run", tmp_path / "marker"
    (run / "checkpoints").mkdir(parents=True)
    (run / "evil.py").write_text(EVIL.format(marker=str(marker)))
    name, kwargs = WRONG_ENVS[wrong]
    text = json.dumps({"env": name, "kwargs": kwargs, "algo": "ppo", "engine": "auto", "steps": 100, "config": {}})
    (run / "config.json").write_text(text.replace("{marker}", str(marker)).replace("{run}", str(run)))
    with CHECKPOINTS["PPO"](tmp_path) as loader:
        (run / "checkpoints" / "step-8.npz").write_bytes(loader.data)
    monkeypatch.chdir(tmp_path)
    for command in ("eval", "play", "train"):
        assert main([command, str(run)]) in (1, 2)
        _out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert str(run) in err or "step-8" in err, err
        assert not marker.exists()


def test_a_checkpoint_imports_no_module(tmp_path: Path, monkeypatch: Any) -> None:
    from vecenv.trainers import PPO
    from vecenv.trainers._checkpoint import load_tree, save_tree

    (tmp_path / "evil_module.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    monkeypatch.syspath_prepend(str(tmp_path))
    with CHECKPOINTS["PPO"](tmp_path) as loader:
        (tmp_path / "file").write_bytes(loader.data)
        for env_id in ("evil_module:Env-v0", "evil_module:make", "no_such_module:X-v0"):
            save_tree(tmp_path / "file", {**load_tree(tmp_path / "file"), "env_id": env_id})
            with pytest.raises(ConfigError, match=r"loading imports nothing; import .* or pass the envs"):
                PPO.load(tmp_path / "file")
    assert not (tmp_path / "marker").exists()
    assert "evil_module" not in sys.modules


# --- memory and time -------------------------------------------------------------------------------------------------


def header(text: str) -> bytes:
    """An array of which there is nothing but what it says of itself."""
    data = text.encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(data)) + data + bytes(64)


HEADERS = {
    "terabytes": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}",
    "gigabytes": "{'descr': '<f8', 'fortran_order': False, 'shape': (500000000,)}",
    "overflow": "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
    "wide": "{'descr': '|V2000000000', 'fortran_order': False, 'shape': (3,)}",
    "wide text": "{'descr': '<U400000000', 'fortran_order': False, 'shape': ()}",
    "many axes": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 200 + ")}",
    "long": "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)" + " " * 10**6 + "}",
    "brackets": "(" * 5000 + ")" * 5000,
    "code": "__import__('os').system('touch marker')",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
    "no shape": "{'descr': '<f8'}",
    "empty": "",
}


@pytest.mark.parametrize("name", BOXES)
def test_arrays_that_promise_more_than_there_is_take_no_memory(name: str, loading: Path) -> None:
    with BOXES[name](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        for text in HEADERS.values():
            for entry in list(entries)[:: max(1, len(entries) // 3)]:
                refuses(loader, archive_of({**entries, entry: header(text)}), loading)


def empty_array(dtype: str, shape: tuple[int, ...]) -> bytes:
    """An array without a single byte, whatever its shape says."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


EMPTY = {
    "records of no size": empty_array("|V0", (10**12,)),
    "text of no size": empty_array("<U0", (10**12,)),
    "bytes of no size": empty_array("|S0", (10**12,)),
    "rows without numbers": empty_array("<f8", (10**12, 0)),
    "rows of rows without numbers": empty_array("<f8", (1, 10**12, 0)),
}
UNUSUAL = {
    "bytes": npy(np.array([b"abc"])),
    "records": npy(np.zeros(3, "i4,f8")),
    "times": npy(np.zeros(3, "M8[s]")),
    "another byte order": npy(np.zeros(3, ">f8")),
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", BOXES)
def test_arrays_of_no_size_or_of_unusual_dtypes_are_refused_at_once(name: str, loading: Path) -> None:
    with BOXES[name](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        some = {*list(entries)[:3], *list(entries)[:: max(1, len(entries) // 3)]}
        for array in (*EMPTY.values(), *UNUSUAL.values()):
            for entry in sorted(some):
                refuses(loader, archive_of({**entries, entry: array}), loading)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", EVERY)
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(name: str, loading: Path) -> None:
    with EVERY[name](loading.parent / "saving") as loader:
        os.mkfifo(loading / loader.name)
        with pytest.raises(VecenvError, match=rf"{loader.name}.* is a pipe; only regular files are read"):
            loader.load(loading / loader.name)


def overlapping(entries: dict[str, bytes], copies: int) -> bytes:
    """An archive whose directory names one large entry many times."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.writestr("large.npy", npy(np.zeros(10**5)))
        large = archive.filelist[-1]
        for number in range(copies):
            twin = zipfile.ZipInfo(f"large{number}.npy")
            for attribute in ("header_offset", "file_size", "compress_size", "CRC", "flag_bits", "create_system"):
                setattr(twin, attribute, getattr(large, attribute))
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
    return stream.getvalue()


@pytest.mark.parametrize("name", BOXES)
def test_archives_that_unpack_to_much_more_are_refused(name: str, loading: Path) -> None:
    with BOXES[name](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        refuses(loader, archive_of({**entries, "bomb.npy": bytes(10**7)}, zipfile.ZIP_DEFLATED), loading)
        refuses(loader, archive_of({**entries, "bomb.npy": bytes(10**6)}, zipfile.ZIP_LZMA), loading)
        refuses(loader, overlapping(entries, 2000), loading)


@pytest.mark.parametrize("name", BOXES)
def test_names_inside_an_archive_are_no_paths(name: str, loading: Path) -> None:
    with BOXES[name](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        for path in ("../marker", "/tmp/marker", "..\\marker", "a/../../marker"):
            loader.attempt(archive_of({path: npy(np.zeros(1)), **entries}), loading)
            assert not (loading.parent / "marker").exists()


DEEP = {
    "lists": "[" * 100_000,
    "closed lists": "[" * 900 + "]" * 900,
    "dicts": '{"a":' * 100_000,
    "long number": "9" * 100_000,
    "long text": '"' + "x" * 10**6 + '"',
    "keys twice": '{"a": 1, "a": 2}',
}


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("name", ["VecNormalize", "replay", "PPO"])
def test_deep_or_endless_json_is_refused(name: str, deep: str, loading: Path) -> None:
    with BOXES[name](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        changed = (
            {"header.json": DEEP[deep].encode()}
            if "header.json" in entries
            else {"about.npy": npy(np.array(DEEP[deep]))}
        )
        refuses(loader, archive_of({**entries, **changed}), loading)


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("name", ["config.json", "monitor.csv", "monitor.csv of a run that goes on"])
def test_deep_or_endless_texts_are_refused(name: str, deep: str, loading: Path) -> None:
    with TEXTS[name](loading.parent / "saving") as loader:
        text = DEEP[deep] if name == "config.json" else f"#{DEEP[deep]}\r\nr,l,t\r\n1,2,3\r\n"
        refuses(loader, text.encode(), loading)


def laughs(depth: int = 60) -> bytes:
    """A tuple of two tuples of two tuples ...: short to write, for ever to look at."""
    built = b")" + b"".join(b"\x94h" + bytes([number]) + b"\x86" for number in range(depth))
    return built + b"\x94"


def statistics_with(built: bytes) -> dict[str, bytes]:
    """Pickles of a VecNormalize of SB3 with something in the place of a key, a number, a shape, an array."""
    begin = b"\x80\x04\x8c\x2fstable_baselines3.common.vec_env.vec_normalize\x8c\x0cVecNormalize\x93)\x81"
    return {
        "a key": built + b"0" + begin + b"}" + b"h" + bytes([60]) + b"K\x01sb.",
        "a number": b"\x80\x04"
        + laughs()[0:0]
        + begin
        + b"}(\x8c\x05gamma"
        + built
        + b"\x8c\x08training"
        + built
        + b"ub.",
        "a set": b"\x80\x04\x8f(" + built + b"\x90.",
        "a frozen set": b"\x80\x04(" + built + b"\x91.",
        "a dict": b"\x80\x04(" + built + b"K\x01d.",
        "arguments of a dict": b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93]]" + built + b"aK\x01aa\x85R.",
        "a dtype": b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93" + built + b"\x85R.",
    }


@pytest.mark.timeout(20)
@pytest.mark.parametrize("place", statistics_with(b""))
def test_pickles_that_take_for_ever_to_hash_or_print_are_refused(place: str, loading: Path) -> None:
    with PICKLES["VecNormalize of SB3"](loading.parent / "saving") as loader:
        refuses(loader, statistics_with(laughs())[place], loading)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("attribute", ["gamma", "training", "norm_obs_keys", "obs_rms", "ret_rms", "observation_space"])
def test_data_that_take_for_ever_to_look_at_are_refused_wherever_they_are(attribute: str, loading: Path) -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from tests.fuzz.loaders import BOX
    from tests.twins import PLAIN, SampleEnv

    endless: Any = ()
    for _ in range(60):
        endless = (endless, endless)
    with normalizer(loading.parent / "saving", "sb3") as loader:
        saved = VecNormalize(DummyVecEnv([lambda: SampleEnv(BOX, PLAIN)]))
        for value in (endless, [endless], {"a": endless}):
            setattr(saved, attribute, value)
            refuses(loader, pickle.dumps(saved), loading)


def test_a_pickle_cannot_change_the_reader(loading: Path) -> None:
    with PICKLES["VecNormalize of SB3"](loading.parent / "saving") as loader:
        for callable_name in (b"_codecs\nencode", b"collections\nOrderedDict", b"numpy\nndarray", b"numpy\ndtype"):
            for state in (b"}X\x01\x00\x00\x00aK\x01s", b"N}X\x0c\x00\x00\x00__defaults__)s\x86"):
                refuses(loader, b"\x80\x02c" + callable_name + b"\n" + state + b"b.", loading)
        assert loader.attempt(loader.data, loading) is None


SIZES: dict[str, dict[str, Any]] = {
    "layers": {"hidden": [100_000, 100_000]},
    "one layer": {"hidden": [10**9]},
    "memory": {"lstm": 10**5},
    "pictures": {"image_features": 10**9},
    "envs": {"num_envs": 10**9},
    "rollout": {"rollout_steps": 10**13},
    "no layer": {"hidden": [0]},
    "less than none": {"hidden": [-5]},
    "text": {"hidden": "wide"},
    "fraction": {"num_envs": 2.5},
    "unknown": {"colour": "red"},
    "optimizer": {"optimizer": "os.system"},
    "activation": {"activation": "__class__"},
}


@pytest.mark.parametrize("size", SIZES)
def test_settings_of_a_checkpoint_cannot_ask_for_more_than_it_holds(size: str, loading: Path) -> None:
    with CHECKPOINTS["PPO with envs of its own"](loading.parent / "saving") as loader:
        entries = entries_of(loader.data)
        about = json.loads(str(np.load(io.BytesIO(entries["about.npy"]))))
        parts = {pair[0]: pair for pair in about["tree"]["d"]}
        config = {pair[0]: pair for pair in parts["config"][1]["d"]}
        for name, value in SIZES[size].items():
            stored = {"l": value} if isinstance(value, list) else value
            if name in config:
                config[name][1] = stored
            else:
                parts["config"][1]["d"].append([name, stored])
        refuses(loader, archive_of({**entries, "about.npy": npy(np.array(json.dumps(about)))}), loading)


CSVS: dict[str, bytes] = {
    "no first line": b"r,l,t\r\n1,2,3\r\n",
    "a long first line": b"#" + b" " * 10**7 + b"\r\nr,l,t\r\n1,2,3\r\n",
    "no columns": b'#{"t_start": 0}\r\n',
    "other columns": b'#{"t_start": 0}\r\na,b\r\n1,2\r\n',
    "text": b'#{"t_start": 0}\r\nr,l,t\r\none,two,three\r\n',
    "NaN": b'#{"t_start": 0}\r\nr,l,t\r\n1,NaN,3\r\n',
    "a beginning that is no float": b'#{"t_start": ' + b"9" * 400 + b"}\r\nr,l,t\r\n1,2,3\r\n",
    "infinite time": b'#{"t_start": 0}\r\nr,l,t\r\n1,2,inf\r\n',
    "binary": b'#{"t_start": 0}\r\nr,l,t\r\n\x00\xff\x80,2,3\r\n',
    "more cells": b'#{"t_start": 0}\r\nr,l,t\r\n1,2,3,4,5\r\n1,2,3\r\n',
    "an open quote": b'#{"t_start": 0}\r\nr,l,t\r\n"' + b"x" * 300_000,
}


@pytest.mark.parametrize("wrong", CSVS)
@pytest.mark.parametrize("name", ["monitor.csv", "monitor.csv for curves"])
def test_texts_that_are_no_episodes_are_refused(name: str, wrong: str, loading: Path) -> None:
    with TEXTS[name](loading.parent / "saving") as loader:
        if name == "monitor.csv for curves" and wrong in (
            "no first line",
            "a long first line",
            "a beginning that is no float",
            "more cells",
            "no columns",
        ):
            loader.attempt(CSVS[wrong], loading)  # it does not look at that line, and takes the cells it knows
        else:
            refuses(loader, CSVS[wrong], loading)


def test_nothing_listens() -> None:
    """A running pool has no open port."""
    with vecenv.make("CartPole-v1", 2, engine="process", workers=2, context="fork") as envs:
        envs.reset(seed=0)
        links = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path)]
        sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
        for table in ("tcp", "tcp6", "udp", "udp6"):
            lines = Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]
            assert not sockets & {line.split()[9] for line in lines}
