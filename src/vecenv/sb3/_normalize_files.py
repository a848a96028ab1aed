"""The files of VecNormalize: vecenv's format, and Stable-Baselines3's pickles. Reading either one runs no code.

Ours is a zip archive without compression: `header.json` (format, version, settings, shapes) and one `.npy` per array.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from vecenv._util.files import Archive, new_file, open_file, parsed, write_archive
from vecenv.errors import UnsafeFile
from vecenv.sb3 import _inert_pickle as inert
from vecenv.sb3._inert_pickle import Record

Format = Literal["vecenv", "sb3"]
"""Ours, or a pickle that Stable-Baselines3 loads."""

_NAME, _VERSION = "vecenv.sb3.VecNormalize", 1
_WHOLE = ""
"""Key of the observation if it is a single array."""


@dataclass(frozen=True)
class Statistics:
    """Running moments: float64 arrays of one shape, and how many samples they are of."""

    mean: np.ndarray
    var: np.ndarray
    count: float


@dataclass(frozen=True)
class Settings:
    """Arguments of VecNormalize, except the env."""

    training: bool
    norm_obs: bool
    norm_reward: bool
    clip_obs: float
    clip_reward: float
    gamma: float
    epsilon: float
    norm_obs_keys: list[str] | None


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Attributes:
        settings: as given.
        shapes: of the observation's arrays by key; key "" if it is a single array; None if a space has no shape.
        obs: statistics by key, of the arrays that are normalised or were at some time.
        returns: statistics of the discounted returns.
    """

    settings: Settings
    shapes: dict[str, tuple[int, ...] | None]
    obs: dict[str, Statistics]
    returns: Statistics


_FLAGS = ("training", "norm_obs", "norm_reward")
_NUMBERS = ("clip_obs", "clip_reward", "gamma", "epsilon")


def settings_of(values: Mapping[str, Any], flag: Callable[[Any], bool], number: Callable[[Any], float]) -> Settings:
    """Settings from the attributes of a VecNormalize, with the functions that convert their values."""
    keys = values.get("norm_obs_keys")
    plain: dict[str, Any] = {name: flag(values[name]) for name in _FLAGS}
    plain |= {name: number(values[name]) for name in _NUMBERS}
    return Settings(**plain, norm_obs_keys=None if keys is None else list(keys))


def read(path: str | os.PathLike[str]) -> Contents:
    """Read either format. No code that the file names is ever run or imported.

    Raises:
        UnsafeFile: it is of neither format, would run code, or is damaged.
        OSError: it cannot be opened.
    """
    try:
        with open_file(path) as file:
            data = file.read()
        if not data:
            raise UnsafeFile("the file is empty")
        contents = _read_archive(data) if data[:2] == b"PK" else _read_pickle(data)
        _check(contents)
    except UnsafeFile as error:
        raise UnsafeFile(f"{path}: {error}; nothing was loaded") from error.__cause__
    except OSError:
        raise
    except Exception as error:  # a file can be wrong in any way
        raise UnsafeFile(f"{path} is damaged ({type(error).__name__}: {error!s:.200}); nothing was loaded") from error
    return contents


def write(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write vecenv's format. An existing file is replaced when the new one is complete."""
    header = {
        "format": _NAME,
        "version": _VERSION,
        "settings": asdict(contents.settings),
        "shapes": contents.shapes,
        "returns_count": float(contents.returns.count),
        "obs_counts": {key: float(statistics.count) for key, statistics in contents.obs.items()},
    }
    arrays = {"returns.mean": contents.returns.mean, "returns.var": contents.returns.var}
    for position, statistics in enumerate(contents.obs.values()):  # keys may not be valid file names
        arrays |= {f"obs.{position}.mean": statistics.mean, f"obs.{position}.var": statistics.var}
    with new_file(path) as file:
        write_archive(file, header, {name: np.asarray(values, np.float64) for name, values in arrays.items()})


def write_pickle(path: str | os.PathLike[str], contents: Contents, attributes: Mapping[str, Any]) -> None:
    """Write a pickle that `VecNormalize.load` of Stable-Baselines3 reads.

    Args:
        path: where; an existing file is replaced when the new one is complete.
        contents: what to write.
        attributes: the env's part of the object: spaces, number of envs, render mode and metadata.
    """
    single = list(contents.obs) == [_WHOLE]
    obs = {key: _as_running_mean_std(statistics) for key, statistics in contents.obs.items()}
    num_envs = attributes["num_envs"]
    state = {
        **attributes,
        "reset_infos": [{} for _ in range(num_envs)],
        "_seeds": [None] * num_envs,
        "_options": [{} for _ in range(num_envs)],
        **asdict(contents.settings),
        **({"obs_rms": obs[_WHOLE] if single else obs} if obs or contents.settings.norm_obs else {}),
        "ret_rms": _as_running_mean_std(contents.returns),
        "old_reward": np.array([]),
    }
    with new_file(path) as file:
        _Sb3Pickler(file, protocol=4).dump(_Sb3Object(_VEC_NORMALIZE, state))


def _read_archive(data: bytes) -> Contents:
    with Archive(io.BytesIO(data)) as archive:
        header = parsed(archive.read("header.json"))
        if not isinstance(header, dict) or header.get("format") != _NAME:
            raise UnsafeFile(f"the archive does not say that it is {_NAME!r}; save one with VecNormalize.save")
        if header.get("version") != _VERSION:
            raise UnsafeFile(f"version {header.get('version')!r} of the format is not known; update vecenv")
        obs = {
            key: _stored(archive, f"obs.{position}", count)
            for position, (key, count) in enumerate(header["obs_counts"].items())
        }
        returns = _stored(archive, "returns", header["returns_count"])
    shapes = {key: None if shape is None else tuple(shape) for key, shape in header["shapes"].items()}
    return Contents(Settings(**header["settings"]), shapes, obs, returns)


def _stored(archive: Archive, name: str, count: float) -> Statistics:
    return Statistics(archive.array(f"{name}.mean.npy"), archive.array(f"{name}.var.npy"), float(count))


class _VecNormalize(Record):
    pass


class _Space(Record):
    pass


_VEC_NORMALIZE = ("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
_RUNNING_MEAN_STD = ("stable_baselines3.common.running_mean_std", "RunningMeanStd")
_SPACES = {
    "box": "Box",
    "dict": "Dict",
    "discrete": "Discrete",
    "multi_binary": "MultiBinary",
    "multi_discrete": "MultiDiscrete",
    "text": "Text",
    "tuple": "Tuple",
}
_ADMITTED: dict[tuple[str, str], type[Record]] = {
    _VEC_NORMALIZE: _VecNormalize,
    _RUNNING_MEAN_STD: Record,
    **{(f"{gym}.spaces.{module}", name): _Space for gym in ("gymnasium", "gym") for module, name in _SPACES.items()},
}


def _read_pickle(data: bytes) -> Contents:
    saved = inert.read(data, _ADMITTED)
    if not isinstance(saved, _VecNormalize) or not isinstance(saved.state, dict):
        raise UnsafeFile("the pickle holds something else than a VecNormalize")
    space = saved["observation_space"]
    parts = space["spaces"] if "spaces" in space.state else {_WHOLE: space}
    if not isinstance(parts, dict) or not all(isinstance(part, _Space) for part in parts.values()):
        raise UnsafeFile("the pickle's observation space is not a space")
    settings = settings_of(saved.state, lambda value: bool(inert.number(value)), inert.number)
    if settings.norm_obs and settings.norm_obs_keys is None and "spaces" in space.state:
        settings = replace(settings, norm_obs_keys=list(parts))  # an old file
    moments = saved["obs_rms"] if settings.norm_obs else saved.state.get("obs_rms", {})
    by_key = moments if isinstance(moments, dict) else {_WHOLE: moments}
    if not all(isinstance(key, str) for key in (*by_key, *parts)):
        raise UnsafeFile("the pickle has statistics without a name")
    return Contents(
        settings,
        {key: _shape(part) for key, part in parts.items()},
        {key: _statistics(part) for key, part in by_key.items()},
        _statistics(saved["ret_rms"]),
    )


def _shape(space: _Space) -> tuple[int, ...] | None:
    shape = space.state.get("_shape", space.state.get("shape"))
    return None if shape is None else tuple(int(inert.number(length)) for length in shape)


def _statistics(moments: Record) -> Statistics:
    return Statistics(inert.array(moments["mean"]), inert.array(moments["var"]), inert.number(moments["count"]))


def _check(contents: Contents) -> None:
    """Raise UnsafeFile unless the numbers can be what a VecNormalize learnt."""
    for key, statistics in (*contents.obs.items(), (None, contents.returns)):
        shape = () if key is None else contents.shapes.get(key)
        numbers = (statistics.mean, statistics.var, np.asarray(statistics.count))
        if statistics.mean.shape != shape or statistics.var.shape != shape:
            raise UnsafeFile(f"statistics of shapes {statistics.mean.shape}, {statistics.var.shape} instead of {shape}")
        if any(values.dtype != np.float64 or not np.isfinite(values).all() for values in numbers):
            raise UnsafeFile("statistics that are not finite float64 numbers")
        if (statistics.var < 0).any() or statistics.count < 0:
            raise UnsafeFile("statistics with a negative variance or count")
    settings = dict(vars(contents.settings))  # not asdict: copying values that are not checked yet may take forever
    keys = settings.pop("norm_obs_keys")
    if not all(isinstance(value, (bool, int, float)) and not np.isnan(value) for value in settings.values()):
        raise UnsafeFile(f"settings that are not numbers, among {', '.join(settings)}")
    if min(settings[name] for name in ("clip_obs", "clip_reward", "epsilon")) < 0 or not 0 <= settings["gamma"] <= 1:
        raise UnsafeFile(f"settings out of range: {settings}")
    if keys is not None and not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise UnsafeFile("norm_obs_keys must be a list of names")
    normalised = [_WHOLE] if keys is None else keys
    if contents.settings.norm_obs and set(contents.obs) != set(normalised):
        raise UnsafeFile(f"statistics of {sorted(contents.obs)}, settings for {normalised}")


class _Sb3Object:
    """An object of Stable-Baselines3, described: `name` is its class."""

    def __init__(self, name: tuple[str, str], state: dict[str, Any]) -> None:
        self.name, self.state = name, state


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]  # only this one can write names that are not there


class _Sb3Pickler(_PythonPickler):
    """Writes classes of Stable-Baselines3 by name, whether it is installed or not."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(obj, _Sb3Object):
            super().save(obj, save_persistent_id)
            return
        module, name = obj.name
        super().save(module)
        super().save(name)
        self.write(pickle.STACK_GLOBAL + pickle.EMPTY_TUPLE + pickle.NEWOBJ)
        super().save(obj.state)
        self.write(pickle.BUILD)


def _as_running_mean_std(statistics: Statistics) -> _Sb3Object:
    return _Sb3Object(_RUNNING_MEAN_STD, asdict(statistics))
