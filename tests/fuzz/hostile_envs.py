"""Envs that do harm: with their spaces, infos, exceptions, children, signals, threads and buffers.

Each kind of harm is one entry of `KINDS`. Its env is a FaultEnv that does the harm in one call, so that observations
still say where they come from; the other envs of a vector env are plain FaultEnvs.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import decimal
import enum
import fractions
import functools
import gc
import itertools
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from vecenv import errors
from vecenv.testing import FaultEnv
from vecenv.testing._fault_kinds import FAILURES, SPOILERS

Result = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One way to do harm.

    Attributes:
        harm: is called with the env and with what it is about to return, and returns what it returns instead.
        family: spaces, infos, exceptions, children, signals, threads, buffers, results, process.
        harmless: what is returned means the same as without it: the row must be right.
        alone: does it to the whole process, so it is for the process engine alone.
        leaves: the env itself leaves processes, threads or descriptors where the program runs it.
        raises: an exception that is not a failure of the env but the program's own, as Ctrl-C is.
        where: the calls that it can be in.
        hangs: the call never ends, so there is a timeout.
        outlives: a process in a session of its own, which is left to itself after its env was closed.
    """

    harm: Callable[[Any, Result], Any]
    family: str
    harmless: bool = False
    alone: bool = False
    leaves: bool = False
    raises: bool = False
    where: tuple[str, ...] = ("step", "reset")
    hangs: bool = False
    outlives: bool = False


KINDS: dict[str, Kind] = {}


def kind(family: str, name: str | None = None, **marks: Any) -> Callable[[Any], Any]:
    """Add a kind."""

    def add(harm: Any) -> Any:
        KINDS[f"{family}: {name or harm.__name__.strip('_').replace('_', ' ')}"] = Kind(harm, family, **marks)
        return harm

    return add


class HostileEnv(FaultEnv):
    """A FaultEnv that does harm in one call, or from one call on.

    Args:
        does: the kind.
        when: the call that does it, of `step` or `reset`, counted for this object; or "make", "call" or "close".
        again: whether all later calls do it too.
    """

    def __init__(
        self, index: int, does: str, where: str, when: int, again: bool = False, length: int = 5, talks: bool = True
    ) -> None:
        self.does, self.here, self.when, self.again = KINDS[does], where, when, again
        self.counted = 0
        super().__init__(index, length=length, talks=talks)
        if where == "spaces":
            self.does.harm(self, {})
        if where == "make":
            self._do("make", {})

    def reset(self, **kwargs: Any) -> Any:
        obs, info = super().reset(**kwargs)
        return self._do("reset", {"obs": obs, "info": info})

    def step(self, action: Any) -> Any:
        return self._do("step", dict(zip(("obs", "reward", "terminated", "truncated", "info"), super().step(action))))

    def poke(self, value: int = 0) -> Any:
        return self._do("call", {"value": super().poke(value)})

    def close(self) -> Any:
        return self._do("close", {})

    def _do(self, here: str, result: Result) -> Any:
        if here == self.here:
            self.counted += 1
            if self.counted == self.when or (self.again and self.counted > self.when):
                result = self.does.harm(self, result)
        if not isinstance(result, dict) or type(result) is not dict:
            return result
        return result["value"] if "value" in result else tuple(result.values())


# --- spaces ----------------------------------------------------------------------------------------------------------

BOX = {"low": -np.inf, "high": np.inf, "shape": (5,), "dtype": np.float64}


def _fails(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError("by hostile code")


def _hostile_box(**methods: Any) -> Any:
    return type("HostileBox", (spaces.Box,), methods)(**BOX)


SPACES: dict[str, Callable[[], Any]] = {
    "contains raises": lambda: _hostile_box(contains=_fails),
    "equality raises": lambda: _hostile_box(__eq__=_fails),
    "equality is an array": lambda: _hostile_box(__eq__=lambda self, other: np.array([True, False])),
    "repr raises": lambda: _hostile_box(__repr__=_fails),
    "sample raises": lambda: _hostile_box(sample=_fails),
    "seed raises": lambda: _hostile_box(seed=_fails),
    "pickling raises": lambda: _hostile_box(__reduce__=_fails),
    "copying raises": lambda: _hostile_box(__deepcopy__=_fails),
    "hashing raises": lambda: _hostile_box(__hash__=_fails),
    "shape raises": lambda: _hostile_box(shape=property(_fails)),
    "shape is none": lambda: _hostile_box(shape=property(lambda self: None)),
    "shape is negative": lambda: _changed(spaces.Box(**BOX), _shape=(-5,)),
    "shape is another": lambda: _changed(spaces.Box(**BOX), _shape=(3, 3)),
    "dtype is none": lambda: _changed(spaces.Box(**BOX), dtype=None),
    "dtype is object": lambda: _changed(spaces.Box(**BOX), dtype=np.dtype(object)),
    "dtype is text": lambda: _changed(spaces.Box(**BOX), dtype=np.dtype("U5")),
    "dtype is of big endian": lambda: _changed(spaces.Box(**BOX), dtype=np.dtype(">f8")),
    "bounds of another shape": lambda: _changed(spaces.Box(**BOX), low=np.zeros(3), high=np.zeros((2, 2))),
    "bounds that cross": lambda: _changed(spaces.Box(**BOX), low=np.ones(5), high=-np.ones(5)),
    "bounds are NaN": lambda: _changed(spaces.Box(**BOX), low=np.full(5, np.nan)),
    "discrete without values": lambda: _changed(spaces.Discrete(3), n=0),
    "discrete below zero": lambda: _changed(spaces.Discrete(3), n=-4),
    "discrete of text": lambda: _changed(spaces.Discrete(3), n="3"),
    "discrete beyond int64": lambda: _changed(spaces.Discrete(3), n=2**70),
    "discrete that starts beyond int64": lambda: _changed(spaces.Discrete(3), start=2**70),
    "multi-discrete without values": lambda: _changed(spaces.MultiDiscrete([3, 3]), nvec=np.array([0, -1])),
    "no space": lambda: None,
    "a class": lambda: spaces.Box,
    "a plain space": lambda: gymnasium.Space((5,), np.float64),
    "an empty dict": lambda: spaces.Dict({}),
    "an empty tuple": lambda: spaces.Tuple(()),
    "keys that are numbers": lambda: spaces.Dict({1: spaces.Box(**BOX), 2: spaces.Discrete(2)}),  # type: ignore[dict-item]
    "odd keys": lambda: spaces.Dict({"": spaces.Discrete(2), "a.b": spaces.Discrete(2), "\0": spaces.Discrete(2)}),
    "a dict of nothing": lambda: _changed(spaces.Dict(a=spaces.Discrete(2)), spaces={"a": None}),
    "a dict in itself": lambda: _in_itself(),
    "a hundred levels": lambda: _levels(100),
    "a thousand levels": lambda: _levels(1000),
    "a thousand parts": lambda: spaces.Tuple([spaces.Discrete(2)] * 1000),
    "a tuple of a number": lambda: _changed(spaces.Tuple((spaces.Discrete(2),)), spaces=(spaces.Discrete(2), 7)),
    "one of nothing": lambda: _changed(spaces.OneOf((spaces.Discrete(2),)), spaces=()),
    "text without letters": lambda: _changed(spaces.Text(4), _char_list=()),
}  # fmt: skip


def _changed(space: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        object.__setattr__(space, name, value)
    return space


def _levels(number: int) -> Any:
    return functools.reduce(lambda inner, _: spaces.Tuple((inner,)), range(number), spaces.Discrete(2))


def _in_itself() -> Any:
    space = spaces.Dict(a=spaces.Discrete(2))
    space.spaces["a"] = space
    return space


def _set_space(name: str, make: Callable[[], Any]) -> Callable[[Any, Result], Any]:
    def harm(env: Any, result: Result) -> None:
        setattr(env, name, make())

    return harm


for _name, _make in SPACES.items():
    kind("spaces", f"observations, {_name}", where=("spaces",))(_set_space("observation_space", _make))
    kind("spaces", f"actions, {_name}", where=("spaces",))(_set_space("action_space", _make))


@kind("spaces", where=("spaces",))
def _there_are_none(env: Any, result: Result) -> None:
    del env.observation_space, env.action_space


@kind("spaces", harmless=True)
def _others_later(env: Any, result: Result) -> Result:
    env.observation_space, env.action_space = spaces.Discrete(2), None
    return result


# --- exceptions ------------------------------------------------------------------------------------------------------


def _error(name: str, bases: tuple[type, ...] = (Exception,), **methods: Any) -> Any:
    return type(name, bases, methods)


def _endless(self: Any, name: str) -> Any:
    return getattr(self, name + "_")


class _Shy(Exception):
    """Every attribute raises something else than AttributeError."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class _Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__name__", "__qualname__", "__module__"):
            raise KeyError(name)
        return super().__getattribute__(name)


class _NoName(Exception, metaclass=_Meta):
    pass


class _NoSubclass(Exception):
    def __init_subclass__(cls, **kwargs: Any) -> None:
        raise ZeroDivisionError("no subclass")


class _ManyArguments(Exception):
    def __init__(self, one: Any, two: Any, *, three: Any) -> None:
        super().__init__()


class _Slots(Exception):
    __slots__ = ("row",)


def _loop() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def _with_attributes(**attributes: Any) -> Exception:
    error = ValueError("attributes")
    error.__dict__.update(attributes)
    return error


EXCEPTIONS: dict[str, Callable[[], Any]] = {
    "every attribute raises KeyError": lambda: _error("Hostile", __getattr__=lambda self, name: {}[name])("text"),
    "every attribute raises, the usual ones too": _Shy,
    "attributes without an end": lambda: _error("Endless", __getattr__=_endless)("text"),
    "attributes raise SystemExit": lambda: _error("Exits", __getattr__=lambda self, name: sys.exit(3))("text"),
    "str raises": lambda: _error("NoText", __str__=_fails)("text"),
    "str is no text": lambda: _error("OddText", __str__=lambda self: 7)("text"),
    "str raises SystemExit": lambda: _error("TextExits", __str__=lambda self: sys.exit(3))("text"),
    "str raises KeyboardInterrupt": lambda: _error("Interrupts", __str__=_interrupts)("text"),
    "repr raises": lambda: _error("NoRepr", __repr__=_fails)("text"),
    "pickling raises": lambda: _error("NoPickle", __reduce_ex__=_fails)("text"),
    "pickling exits": lambda: _error("PickleExits", __reduce_ex__=lambda self, protocol: sys.exit(3))("text"),
    "unpickling raises": lambda: _error("NoUnpickle", __reduce_ex__=lambda self, protocol: (int, ("x",)))("text"),
    "unpickling gives something else": lambda: _error("Seven", __reduce_ex__=lambda self, protocol: (int, ("7",)))(),
    "its class has no name": _NoName,
    "no subclass": _NoSubclass,
    "many arguments": lambda: _ManyArguments(1, 2, three=3),
    "slots": _Slots,
    "its cause is its cause": _loop,
    "a group": lambda: getattr(builtins, "ExceptionGroup", Exception)("several", [ValueError("one"), _Shy()]),
    "a million letters": lambda: ValueError("x" * 10**6),
    "half a letter": lambda: ValueError("\ud800 \0 \x1b[31m %s {0}"),
    "arguments that cannot be pickled": lambda: ValueError(threading.Lock(), lambda: 1),
    "an attribute with our name": lambda: _with_attributes(row="x", rows=None, phase=3, message=b"", elapsed="never"),
    "a file": lambda: OSError(5, "text", "file", None, "second"),
    "bytes": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "wrong"),
    "end of an iteration": StopIteration,
    "end of a file": EOFError,
    "a broken pipe": BrokenPipeError,
    "a reset connection": ConnectionResetError,
    "a timeout": TimeoutError,
    "would block": BlockingIOError,
    "no such child": ChildProcessError,
    "no memory": MemoryError,
    "an assertion": AssertionError,
    "a warning": lambda: RuntimeWarning("text"),
    "SystemExit of text": lambda: SystemExit("text"),
    "SystemExit of nothing": SystemExit,
    "our EnvError": lambda: errors.EnvError("text", row=3, rows=(0, 1, 2, 3), phase="close"),
    "our EnvError of no such env": lambda: errors.EnvError("text", row=99, rows=(99, -1), phase="step"),
    "our ClosedError": lambda: errors.ClosedError("text"),
    "our PendingError": lambda: errors.PendingError("text"),
    "our NothingPendingError": lambda: errors.NothingPendingError("text"),
    "our NotResetError": lambda: errors.NotResetError("text"),
    "our WorkerDied": lambda: errors.WorkerDied("text", row=0, rows=(0, 1)),
    "our WorkerTimeout": lambda: errors.WorkerTimeout("text", row=0),
    "our RestartLimit": lambda: errors.RestartLimit("text", row=0),
    "our SpaceError": lambda: errors.SpaceError("text"),
    "our KernelError": lambda: errors.KernelError("rule", "kernel", "function", "file", 3),
}  # fmt: skip
PROGRAMS_OWN: dict[str, Callable[[], BaseException]] = {
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "a BaseException": lambda: _error("Base", (BaseException,))("text"),
    "a BaseException whose attributes raise": lambda: _error("Base", (BaseException,), __getattr__=_fails)("text"),
}


def _interrupts(*args: Any) -> Any:
    raise KeyboardInterrupt


def _raise(make: Callable[[], BaseException]) -> Callable[[Any, Result], Any]:
    def harm(env: Any, result: Result) -> None:
        raise make()

    return harm


EVERYWHERE = ("step", "reset", "make", "call", "close")
for _name, _make in EXCEPTIONS.items():
    kind("exceptions", _name, where=EVERYWHERE)(_raise(_make))
for _name, _make in PROGRAMS_OWN.items():
    kind("exceptions", _name, raises=True, where=("step", "reset"))(_raise(_make))


@kind("exceptions", where=EVERYWHERE)
def _recursion(env: Any, result: Result) -> Any:
    return _recursion(env, result)


@kind("exceptions", where=EVERYWHERE)
def _a_class_instead_of_an_exception(env: Any, result: Result) -> Any:
    raise 7  # type: ignore[misc]


# --- infos -----------------------------------------------------------------------------------------------------------


class _Refuses:
    """Everything that is asked of it raises."""

    __array__ = __len__ = __iter__ = __bool__ = __eq__ = __float__ = __int__ = __repr__ = _fails  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class _Unpicklable:
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("by hostile code")


class _NotUnpicklable:
    def __reduce__(self) -> Any:
        return int, ("not a number",)


class _ExitsPickling:
    def __reduce__(self) -> Any:
        sys.exit(3)


class _ExitsUnpickling:
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class _Lies:
    @property
    def __class__(self) -> Any:
        return dict


class _HostileDict(dict):  # type: ignore[type-arg]
    items = keys = values = __iter__ = __getitem__ = _fails  # type: ignore[assignment]


class _HostileArray(np.ndarray):
    def __array_finalize__(self, other: Any) -> None:
        pass

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("by hostile code")

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("by hostile code")


class _Color(enum.IntEnum):
    RED = 1


def _info_in_itself() -> dict[str, Any]:
    info: dict[str, Any] = {"a": 1}
    info["self"] = info
    return info


def _list_in_itself() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


def _deep(levels: int) -> dict[str, Any]:
    return functools.reduce(lambda inner, _: {"in": inner}, range(levels), {"at": 1})


SHARED: dict[str, Any] = {}
"""What all envs of a process hand out."""
INFOS: dict[str, Callable[[Any], Any]] = {
    "refuses everything": lambda env: {"x": _Refuses()},
    "cannot be pickled": lambda env: {"x": _Unpicklable(), "fine": 1},
    "cannot be unpickled": lambda env: {"x": _NotUnpicklable(), "fine": 1},
    "exits when pickled": lambda env: {"x": _ExitsPickling()},
    "exits when unpickled": lambda env: {"x": _ExitsUnpickling()},
    "a lock deep inside": lambda env: {"a": {"b": [{"c": threading.Lock()}], "fine": 1}},
    "keys that cannot be pickled": lambda env: {threading.Lock(): 1, "fine": 1},
    "keys that are numbers": lambda env: {1: 2, None: 3, (1, 2): 4, 2.5: 1, False: 3},
    "keys that look like masks": lambda env: {"_at": 3, "__at": [], "_": 1},
    "keys of ours": lambda env: {"final_obs": 1, "final_info": 2, "_final_obs": 3, "fault": 4, "episode": 5},
    "an episode that is none": lambda env: {"episode": {"r": "x", "l": None, "t": {}}},
    "a masked array": lambda env: {"x": np.ma.masked_array([1.0, 2.0], [True, False])},
    "a masked number": lambda env: {"x": np.ma.masked},
    "an array of objects": lambda env: {"x": np.array([None, {}, threading.Lock()], object)},
    "records": lambda env: {"x": np.zeros(2, "i4,f8")},
    "times": lambda env: {"x": np.datetime64("2020-01-01"), "y": np.timedelta64(3, "s")},
    "a matrix": lambda env: {"x": np.matrix([[1.0, 2.0]])},
    "half of a number": lambda env: {"x": np.float16(1.5), "y": np.longdouble(1.5), "z": np.clongdouble(1j)},
    "a number without an axis": lambda env: {"x": np.array(3), "y": np.array(None, object)},
    "arrays of another shape each time": lambda env: {"x": np.zeros(env.index + env.steps)},
    "another type each time": lambda env: {"x": ([1, 2.5, "x", None, {"y": 1}, [1]] * 9)[env.index + env.steps]},
    "dicts and numbers": lambda env: {"x": {"y": 1} if env.steps % 2 else 1},
    "an array that refuses": lambda env: {"x": np.zeros(3).view(_HostileArray)},
    "a dict that refuses": lambda env: _HostileDict(x=1),
    "a dict that refuses, inside": lambda env: {"x": _HostileDict(x=1)},
    "an ordered dict": lambda env: OrderedDict(x=1, y=OrderedDict(z=2)),
    "a dict with defaults": lambda env: defaultdict(lambda: 1, x=2),
    "no dict, but nearly": lambda env: UserDict(x=1),
    "pretends to be a dict": lambda env: _Lies(),
    "pretends to be a dict, inside": lambda env: {"x": _Lies()},
    "a mapping proxy": lambda env: {"x": types.MappingProxyType({"y": 1})},
    "contains itself": lambda env: _info_in_itself(),
    "a list that contains itself": lambda env: {"x": _list_in_itself()},
    "fifty levels": lambda env: _deep(50),
    "ten thousand levels": lambda env: _deep(10_000),
    "ten thousand keys": lambda env: {f"key {number}": number for number in range(10_000)},
    "a large array": lambda env: {"x": np.zeros(3_000_000)},
    "a long number": lambda env: {"x": 10**5000, "y": -(2**63), "z": 2**64},
    "an enum": lambda env: {"x": _Color.RED, "y": _Color},
    "functions": lambda env: {"x": lambda: 1, "y": print, "z": env.poke},
    "the env itself": lambda env: {"env": env},
    "a generator": lambda env: {"x": (number for number in range(3))},
    "a socket": lambda env: {"x": _socket()},
    "an open file": lambda env: {"x": open(os.devnull)},
    "a view of memory": lambda env: {"x": memoryview(b"abc"), "y": bytearray(b"x")},
    "half a letter": lambda env: {"\ud800": "\udfff"},
    "a generator of numbers": lambda env: {"x": np.random.default_rng(), "y": env.np_random},
    "an exception": lambda env: {"x": _Shy(), "y": ValueError("x")},
    "a frame": lambda env: {"x": sys._getframe()},
    "a named tuple": lambda env: {"x": Pair(1, 2)},
    "is shared by all envs": lambda env: SHARED.setdefault("info", {"list": []}),
}  # fmt: skip
Pair = namedtuple("Pair", "one two")


def _socket() -> Any:
    one, other = socket.socketpair()
    other.close()
    return one


def _inform(make: Callable[[Any], Any]) -> Callable[[Any, Result], Any]:
    return lambda env, result: {**result, "info": make(env)}


def _inform_at_the_end(make: Callable[[Any], Any]) -> Callable[[Any, Result], Any]:
    return lambda env, result: {**result, "truncated": True, "info": make(env)}


for _name, _make in INFOS.items():
    _leaves = _name in ("a socket", "an open file")
    kind("infos", _name, leaves=_leaves)(_inform(_make))
    kind("infos", f"{_name}, at the end", leaves=_leaves, where=("step",))(_inform_at_the_end(_make))

_OBS_IS_RIGHT = {  # these are all that an info may be, so the row is as it would be without them
    "cannot be pickled", "a lock deep inside", "a masked array", "records", "times", "a matrix",
    "half of a number", "a number without an axis", "arrays of another shape each time", "another type each time",
    "dicts and numbers", "an ordered dict", "fifty levels", "ten thousand keys", "a large array", "a long number",
    "an enum", "functions", "a view of memory", "half a letter", "a named tuple", "is shared by all envs",
}  # fmt: skip
for _name in _OBS_IS_RIGHT:
    _was = KINDS[f"infos: {_name}"]
    KINDS[f"infos: {_name}"] = Kind(_was.harm, "infos", harmless=True, leaves=_was.leaves)


# --- buffers and results ---------------------------------------------------------------------------------------------


class _Arrayish:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return self.array


class _RefusesArray:
    __array__ = _fails


class _ShortArray:
    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.zeros(3)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _spread(array: np.ndarray, step: int) -> np.ndarray:
    wide = np.zeros(abs(step) * len(array), array.dtype)
    view = wide[::step]
    view[:] = array
    return view


def _mapped(array: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, array.dtype, "w+", shape=array.shape)
        mapped[:] = array
    return mapped


def _shared(array: np.ndarray, name: str) -> np.ndarray:
    """The same memory each time, for every env of the process."""
    buffer = SHARED.setdefault(name, np.zeros_like(array))
    buffer[:] = array
    return buffer


def _field(array: np.ndarray) -> np.ndarray:
    records = np.zeros(len(array), [("x", "i1"), ("y", "f8")])
    records["y"] = array
    return records["y"]


RIGHT_OBS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "one buffer for all envs": lambda env, obs: _shared(obs, "all"),
    "views of one buffer for all envs": lambda env, obs: _shared(obs, "all")[:],
    "one buffer of its own": lambda env, obs: _shared(obs, f"of {env.index}"),
    "read-only": lambda env, obs: _read_only(obs),
    "every third number of a buffer": lambda env, obs: _spread(obs, 3),
    "from the end to the beginning": lambda env, obs: _spread(obs, -1),
    "not aligned": lambda env, obs: _unaligned(obs),
    "big endian": lambda env, obs: obs.astype(">f8"),
    "of a mapped file": lambda env, obs: _mapped(obs),
    "a field of records": lambda env, obs: _field(obs),
    "a list": lambda env, obs: obs.tolist(),
    "a tuple": lambda env, obs: tuple(obs.tolist()),
    "single floats": lambda env, obs: list(obs),
    "is asked for its array": lambda env, obs: _Arrayish(obs),
    "a subclass": lambda env, obs: obs.view(type("Sub", (np.ndarray,), {})),
    "a long double": lambda env, obs: obs.astype(np.longdouble),
}
WRONG_OBS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "masked": lambda env, obs: np.ma.masked_array(obs, [True, False, False, False, False]),
    "of objects": lambda env, obs: obs.astype(object),
    "of objects that refuse": lambda env, obs: np.array([_Refuses()] * 5, object),
    "of text": lambda env, obs: obs.astype(str),
    "of bytes": lambda env, obs: obs.tobytes(),
    "complex": lambda env, obs: obs.astype(complex),
    "times": lambda env, obs: obs.astype("M8[s]"),
    "a matrix": lambda env, obs: np.matrix(obs),
    "refuses to be an array": lambda env, obs: _RefusesArray(),
    "is another array": lambda env, obs: _ShortArray(),
    "an array that refuses": lambda env, obs: obs.view(_HostileArray),
    "ragged": lambda env, obs: [1.0, [2.0], [3.0, 4.0], [], None],
    "an iterator": lambda env, obs: iter(obs),
    "a generator without an end": lambda env, obs: itertools.count(),
    "a dict": lambda env, obs: {"obs": obs},
    "one axis too many": lambda env, obs: obs[None],
    "a huge view of one number": lambda env, obs: np.broadcast_to(obs[0], (10**9, 5)),
    "no numbers": lambda env, obs: np.zeros(0),
    "too large a number": lambda env, obs: [10**400] * 5,
    "refuses everything": lambda env, obs: _Refuses(),
    "the env": lambda env, obs: env,
    "a type": lambda env, obs: np.ndarray,
    "an ellipsis": lambda env, obs: ...,
}


def _unaligned(array: np.ndarray) -> np.ndarray:
    memory = bytearray(array.nbytes + 1)
    view = np.frombuffer(memory, array.dtype, len(array), 1)
    view[:] = array
    return view


def _observe(make: Callable[[Any, Any], Any]) -> Callable[[Any, Result], Any]:
    return lambda env, result: {**result, "obs": make(env, result["obs"])}


def _observe_at_the_end(make: Callable[[Any, Any], Any]) -> Callable[[Any, Result], Any]:
    return lambda env, result: {**result, "obs": make(env, result["obs"]), "truncated": True}


for _name, _make in RIGHT_OBS.items():
    kind("buffers", _name, harmless=True)(_observe(_make))
for _name, _make in WRONG_OBS.items():
    kind("buffers", _name)(_observe(_make))
    kind("buffers", f"{_name}, at the end", where=("step",))(_observe_at_the_end(_make))


@kind("buffers", leaves=True)
def _written_by_a_thread_afterwards(env: Any, result: Result) -> Result:
    def write() -> None:
        for _ in range(1000):
            obs[-1] = time.monotonic()

    obs = result["obs"]
    threading.Thread(target=write, daemon=True).start()
    return result


class _Float(float):
    __float__ = __eq__ = __add__ = __radd__ = _fails  # type: ignore[assignment]
    __hash__ = float.__hash__


VALUES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a decimal reward": ("reward", lambda value: decimal.Decimal(value)),
    "a fraction": ("reward", lambda value: fractions.Fraction(value)),
    "a complex reward": ("reward", lambda value: complex(value)),
    "a reward that refuses": ("reward", lambda value: _Refuses()),
    "a float that refuses": ("reward", lambda value: _Float(value)),
    "too large a reward": ("reward", lambda value: 10**400),
    "a masked reward": ("reward", lambda value: np.ma.masked),
    "a reward of objects": ("reward", lambda value: np.array(value, object)),
    "rewards": ("reward", lambda value: [value, value]),
    "a reward of a time": ("reward", lambda value: np.timedelta64(3, "s")),
    "a flag that refuses": ("terminated", lambda value: _Refuses()),
    "flags": ("terminated", lambda value: np.array([True, False])),
    "a flag in an array": ("truncated", lambda value: np.array(True)),
    "a number as a flag": ("truncated", lambda value: 0),
    "a masked flag": ("terminated", lambda value: np.ma.masked),
    "no flag": ("terminated", lambda value: None),
}


def _replace(name: str, make: Callable[[Any], Any]) -> Callable[[Any, Result], Any]:
    return lambda env, result: {**result, name: make(result[name])}


for _name, (_part, _change) in VALUES.items():
    kind("results", _name, where=("step",))(_replace(_part, _change))


@kind("results", "a long double as a reward", harmless=True, where=("step",))
def _long_double(env: Any, result: Result) -> Result:
    return {**result, "reward": np.longdouble(result["reward"])}


RESULTS: dict[str, Callable[[Any, Result], Any]] = {
    "a list": lambda env, result: list(result.values()),
    "a generator": lambda env, result: (value for value in result.values()),
    "nothing": lambda env, result: None,
    "a number": lambda env, result: 7,
    "text of the right length": lambda env, result: "x" * len(result),
    "a dict of the right length": lambda env, result: OrderedDict(result),
    "one value too many": lambda env, result: (*result.values(), 1),
    "itself": lambda env, result: env,
    "a function": lambda env, result: env.step,
    "an iterator that raises": lambda env, result: _raising_iterator(),
    "an endless iterator": lambda env, result: itertools.repeat(1),
    "refuses everything": lambda env, result: _Refuses(),
    "pretends to be a tuple": lambda env, result: type("T", (), {"__class__": property(lambda self: tuple)})(),
    "a tuple that refuses": lambda env, result: type("T", (tuple,), {"__iter__": _fails, "__len__": _fails})((1,)),
    "NotImplemented": lambda env, result: NotImplemented,
}


def _raising_iterator() -> Iterator[Any]:
    yield np.zeros(5)
    raise ZeroDivisionError("by hostile code")


for _name, _make_result in RESULTS.items():
    kind("results", _name)(_make_result)

# --- children --------------------------------------------------------------------------------------------------------


@kind("children", harmless=True)
def _one_that_ends_at_once(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        os._exit(0)
    return result


@kind("children", alone=True)
def _one_that_returns(env: Any, result: Result) -> Result:
    os.fork()  # and both go on
    return result


@kind("children", alone=True)
def _one_that_returns_alone(env: Any, result: Result) -> Result:
    if os.fork():
        time.sleep(0.3)  # the copy is first
    return result


@kind("children", alone=True)
def _one_whose_parent_ends(env: Any, result: Result) -> Result:
    if os.fork():
        os._exit(0)
    return result


@kind("children", alone=True)
def _one_that_raises(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        raise ValueError("in a copy of a worker")
    return result


@kind("children", alone=True, harmless=True)
def _one_that_exits_by_sys_exit(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        sys.exit(0)
    return result


@kind("children", alone=True)
def _one_that_calls_the_env(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        for _ in range(3):
            FaultEnv.step(env, 0)
    return result


@kind("children", leaves=True, harmless=True)
def _one_that_stays(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    return result


@kind("children", leaves=True, harmless=True)
def _one_that_ignores_signals(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(60)
        os._exit(0)
    return result


@kind("children", leaves=True, harmless=True)
def _a_child_of_a_child(env: Any, result: Result) -> Result:
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    return result


@kind("children", leaves=True, harmless=True)
def _a_program(env: Any, result: Result) -> Result:
    env.children.append(subprocess.Popen(["sleep", "60"]))
    return result


@kind("children", leaves=True, harmless=True, outlives=True)
def _a_program_in_a_session_of_its_own(env: Any, result: Result) -> Result:
    env.children.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
    return result


@kind("children", alone=True, harmless=True)
def _a_process_of_multiprocessing(env: Any, result: Result) -> Result:
    process = multiprocessing.get_context("fork").Process(target=int)
    process.start()
    process.join()
    return result


@kind("children", alone=True, harmless=True)
def _a_vector_env(env: Any, result: Result) -> Result:
    import vecenv

    with vecenv.make(FaultEnv.many(2), engine="process", workers=2, context="fork") as inner:
        inner.reset(seed=0)
        inner.step([0, 0])
    return result


@kind("children", alone=True)
def _a_vector_env_that_is_not_closed(env: Any, result: Result) -> Result:
    import vecenv

    env.inner = vecenv.make(FaultEnv.many(2), engine="process", workers=2, context="fork")
    env.inner.reset(seed=0)
    return result


@kind("children", alone=True)
def _forks_in_a_thread(env: Any, result: Result) -> Result:
    def fork() -> None:
        if os.fork() == 0:
            os._exit(0)

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    return result


@kind("children", alone=True)
def _another_program_in_its_place(env: Any, result: Result) -> Any:
    os.execvp("sleep", ["sleep", "60"])


# --- signals ---------------------------------------------------------------------------------------------------------


def _send(number: int) -> Callable[[Any, Result], Any]:
    def harm(env: Any, result: Result) -> Result:
        os.kill(os.getpid(), number)
        return result

    return harm


for _number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM,
                signal.SIGCHLD, signal.SIGPIPE, signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGXCPU,
                signal.SIGCONT, signal.SIGWINCH, signal.SIGQUIT):  # fmt: skip
    kind("signals", f"sends itself {_number.name}", alone=True)(_send(_number))


@kind("signals", alone=True, hangs=True)
def _stops_itself(env: Any, result: Result) -> Result:
    os.kill(os.getpid(), signal.SIGSTOP)
    return result


@kind("signals", alone=True)
def _usual_handlers(env: Any, result: Result) -> Result:
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    return result


@kind("signals", alone=True, hangs=True)
def _the_usual_handler_of_SIGUSR1_and_hangs(env: Any, result: Result) -> Result:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    time.sleep(60)
    return result


@kind("signals", alone=True, hangs=True)
def _ignores_all_and_hangs(env: Any, result: Result) -> Result:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    time.sleep(60)
    return result


@kind("signals", alone=True, harmless=True)
def _blocks_all(env: Any, result: Result) -> Result:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    return result


@kind("signals", alone=True, harmless=True)
def _ignores_dead_children(env: Any, result: Result) -> Result:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if os.fork() == 0:
        os._exit(0)
    return result


@kind("signals", alone=True)
def _a_timer_that_raises_later(env: Any, result: Result) -> Result:
    signal.signal(signal.SIGALRM, _fails)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    return result


@kind("signals", alone=True)
def _a_timer_that_interrupts_later(env: Any, result: Result) -> Result:
    signal.signal(signal.SIGALRM, _interrupts)
    signal.setitimer(signal.ITIMER_REAL, 0.003)
    return result


@kind("signals", alone=True, harmless=True)
def _a_timer_whose_handler_does_nothing(env: Any, result: Result) -> Result:
    signal.signal(signal.SIGALRM, lambda *args: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    return result


@kind("signals", alone=True)
def _interrupts_its_group(env: Any, result: Result) -> Result:
    os.killpg(0, signal.SIGINT)
    return result


@kind("signals", alone=True)
def _ends_its_group(env: Any, result: Result) -> Result:
    os.killpg(0, signal.SIGKILL)
    return result


# --- threads ---------------------------------------------------------------------------------------------------------


@kind("threads", leaves=True, harmless=True)
def _one_that_stays(env: Any, result: Result) -> Result:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return result


@kind("threads", alone=True, harmless=True)
def _one_that_is_not_daemonic(env: Any, result: Result) -> Result:
    threading.Thread(target=time.sleep, args=(60,)).start()
    return result


@kind("threads", leaves=True, harmless=True)
def _one_that_raises(env: Any, result: Result) -> Result:
    threading.Thread(target=_fails, daemon=True).start()
    return result


@kind("threads", leaves=True, harmless=True)
def _one_that_exits(env: Any, result: Result) -> Result:
    threading.Thread(target=sys.exit, daemon=True).start()
    return result


@kind("threads", leaves=True, harmless=True)
def _one_that_is_busy(env: Any, result: Result) -> Result:
    def work() -> None:
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            pass

    threading.Thread(target=work, daemon=True).start()
    return result


@kind("threads", alone=True)
def _one_that_ends_the_process_soon(env: Any, result: Result) -> Result:
    threading.Timer(0.003, os._exit, (5,)).start()
    return result


@kind("threads", alone=True)
def _one_that_kills_the_process_soon(env: Any, result: Result) -> Result:
    threading.Timer(0.003, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return result


@kind("threads", harmless=True)
def _steps_in_a_thread(env: Any, result: Result) -> Result:
    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(dict(result)))
    thread.start()
    thread.join()
    return box[0]


@kind("threads", alone=True)
def _interrupts_the_main_thread(env: Any, result: Result) -> Result:
    import _thread

    _thread.interrupt_main()
    return result


@kind("threads", alone=True)
def _raises_in_the_main_thread(env: Any, result: Result) -> Result:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(threading.main_thread().ident or 0), ctypes.py_object(ZeroDivisionError)
    )
    return result


@kind("threads", alone=True, harmless=True)
def _traces_everything(env: Any, result: Result) -> Result:
    sys.settrace(lambda *args: None)
    sys.setswitchinterval(1e-6)
    return result


# --- the process -----------------------------------------------------------------------------------------------------


@kind("process", alone=True)
def _closes_all_files(env: Any, result: Result) -> Result:
    os.closerange(3, 256)
    return result


@kind("process", alone=True)
def _closes_the_usual_files(env: Any, result: Result) -> Result:
    os.closerange(0, 3)
    print("hello")
    return result


@kind("process", alone=True)
def _closes_and_opens_all_files(env: Any, result: Result) -> Result:
    os.closerange(0, 256)
    env.files = [os.open(os.devnull, os.O_RDWR) for _ in range(64)]
    return result


@kind("process", alone=True)
def _writes_into_all_files(env: Any, result: Result) -> Result:
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, False)
            os.write(descriptor, b"\x80\x04 not a message\n" * 10)
    return result


@kind("process", alone=True, harmless=True)
def _no_output(env: Any, result: Result) -> Result:
    sys.stdout = sys.stderr = sys.stdin = None  # type: ignore[assignment]
    print("hello")
    return result


@kind("process", alone=True)
def _no_more_files(env: Any, result: Result) -> Result:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return result


@kind("process", alone=True)
def _no_more_memory(env: Any, result: Result) -> Result:
    resource.setrlimit(resource.RLIMIT_AS, (1, 1))
    return result


@kind("process", alone=True)
def _no_more_time(env: Any, result: Result) -> Result:
    resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
    return result


@kind("process", alone=True, harmless=True)
def _no_environment(env: Any, result: Result) -> Result:
    os.environ.clear()
    os.chdir("/")
    os.umask(0o777)
    return result


@kind("process", alone=True)
def _no_modules(env: Any, result: Result) -> Result:
    sys.modules.clear()
    return result


@kind("process", alone=True)
def _no_names(env: Any, result: Result) -> Result:
    for name in ("print", "open", "len", "repr", "isinstance"):
        setattr(builtins, name, _fails)
    return result


@kind("process", alone=True)
def _time_stands_still(env: Any, result: Result) -> Result:
    time.monotonic = time.time = time.perf_counter = lambda: 1.0
    time.perf_counter_ns = time.monotonic_ns = lambda: 1
    time.sleep = lambda seconds: None
    return result


@kind("process", alone=True)
def _little_recursion(env: Any, result: Result) -> Result:
    sys.setrecursionlimit(60)
    return result


@kind("process", harmless=True)
def _collects_garbage(env: Any, result: Result) -> Result:
    gc.collect()
    return result


@kind("process", alone=True, hangs=True)
def _hangs(env: Any, result: Result) -> Result:
    time.sleep(60)
    return result


@kind("process", alone=True, hangs=True)
def _hangs_in_a_loop(env: Any, result: Result) -> Result:
    while True:
        pass


@kind("process", alone=True, hangs=True)
def _hangs_and_swallows_everything(env: Any, result: Result) -> Result:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@kind("process", alone=True, hangs=True, where=("make", "close"))
def _hangs_before_or_after(env: Any, result: Result) -> Result:
    time.sleep(60)
    return result


# --- what FaultEnv can do --------------------------------------------------------------------------------------------

_HANGS = {"hang", "hang-with-gil", "hang-ignoring-sigterm", "stop"}
_ALONE = {*_HANGS, "os-exit", "kill", "segfault", "abort", "fork-and-die"}
for _name in FAILURES:
    if _name in ("keyboard-interrupt", "slow"):
        continue
    kind(
        "faults",
        _name,
        alone=_name in _ALONE,
        hangs=_name in _HANGS,
        leaves=_name in ("fork-child", "session-child", "fd-leak"),
        outlives=_name == "session-child",
    )(lambda env, result, name=_name: (FAILURES[name](env) and None) or result)
for _name in SPOILERS:
    kind("faults", _name, where=("step", "reset") if _name.startswith(("obs", "info")) else ("step",))(
        lambda env, result, name=_name: SPOILERS[name](result)
    )
