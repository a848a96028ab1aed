"""Kernels run by plain Python and NumPy, without any of vecenv's own code: the oracle for kernels in natural NumPy."""

from __future__ import annotations

import importlib
import sys
from collections import deque
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from unittest import mock

import gymnasium
import numpy as np
from gymnasium import spaces

import vecenv.kernel
from vecenv.kernel.language import define


class Cells(np.ndarray):
    """An array whose numbers are read as Python's; `@` adds products one after the other."""

    def __getitem__(self, index):
        return plain(super().__getitem__(index))

    def __iter__(self):
        return (self[place] for place in range(len(self)))

    def __matmul__(self, other):
        if self.ndim == 1:
            return plain(sum(self[place] * other[place] for place in range(len(self))))
        columns = other.reshape(len(other), -1)
        result = np.zeros((len(self), columns.shape[1])).view(Cells)
        for row in range(len(self)):
            for column in range(columns.shape[1]):
                result[row, column] = sum(self[row, k] * columns[k, column] for k in range(len(other)))
        return result if other.ndim == 2 else result[:, 0]


def _plain_method(name):
    def method(self, *args, **kwargs):
        return plain(getattr(np.asarray(self), name)(*args, **kwargs))

    return method


for _name in ("sum", "max", "min", "any", "all", "argmax", "argmin", "mean"):
    setattr(Cells, _name, _plain_method(_name))


def plain(value):
    """Arrays as Cells, NumPy's numbers as Python's."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value.view(Cells)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.item()
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value


class PlainNumPy:
    """`np` as kernels see it."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if isinstance(found, (type, ModuleType)) or not callable(found):
            return found
        return lambda *args, **kwargs: plain(found(*args, **kwargs))


class PlainStream:
    """NumPy's Generator, whose numbers are Python's and whose arrays are Cells."""

    def __init__(self, generator):
        self.generator = generator

    def __getattr__(self, name):
        return lambda *args, **kwargs: plain(getattr(self.generator, name)(*args, **kwargs))


class Queue(deque):
    """As `vecenv.kernel.Queue`: a deque that holds at most `capacity` numbers."""

    def __init__(self, dtype, capacity):
        super().__init__()
        self.capacity = capacity

    def append(self, value):
        assert len(self) < self.capacity
        super().append(value)


class State:
    """Fields of one env; assigning an array copies it into the field, and every value must fit."""

    def __init__(self, fields):
        for name, declared in fields.items():
            kind, shape = declared if isinstance(declared, tuple) else (declared, None)
            value = np.dtype(kind).type(0).item() if shape is None else np.zeros(shape, kind).view(Cells)
            self.__dict__[name] = value

    def __setattr__(self, name, value):
        held = self.__dict__[name]
        if isinstance(held, np.ndarray):
            held[:] = value
        else:
            value = value.item() if isinstance(value, np.generic) else value
            assert type(value) in (
                (bool,) if type(held) is bool else (int, bool) if type(held) is int else (float, int, bool)
            ), (name, value)
            self.__dict__[name] = type(held)(value)


class PlainEnv(gymnasium.Env):
    """One env of a class that would be a kernel."""

    def __init__(self, definition, **params):
        self.definition = definition
        self.params = SimpleNamespace()
        self.ids = definition.kernel_ids
        for name, value in vars(getattr(definition, "Params", object)).items():
            if not name.startswith("_"):
                setattr(self.params, name, plain(params.pop(name, value)))
        assert not params, params
        for name in ("observation_space", "action_space"):
            space = getattr(definition, name)
            setattr(self, name, space if isinstance(space, spaces.Space) else space(self.params))
        self.info_fields = getattr(definition, "info", {})
        self.state = State({**definition.state, **self.info_fields})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.definition.reset(self.state, PlainStream(self.np_random), self.params)
        return self._observe(), self._info()

    def step(self, action):
        given = int(action) if isinstance(self.action_space, spaces.Discrete) else plain(np.array(action))
        reward, *flags = self.definition.step(self.state, given, PlainStream(self.np_random), self.params)
        terminated, truncated = (*flags, False)[:2]
        return self._observe(), float(reward), bool(terminated), bool(truncated), self._info()

    def _observe(self):
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            obs = {name: _zeros(part) for name, part in space.items()}
        else:
            obs = _zeros(space)
        self.definition.observe(self.state, obs, self.params)
        return obs

    def _info(self):
        info = {name: getattr(self.state, name) for name in self.info_fields}
        if hasattr(self.definition, "action_mask"):
            mask = np.zeros(self.action_space.n, np.int8).view(Cells)
            self.definition.action_mask(self.state, mask, self.params)
            info["action_mask"] = np.array(mask)
        return info

    def render(self):
        return self.definition.render(self.state, self.params)


def _zeros(space):
    return 0 if isinstance(space, spaces.Discrete) else np.zeros(space.shape, space.dtype).view(Cells)


def _kernel(id, max_episode_steps=None, *, kwargs=None):
    def decorate(definition):
        definition.kernel_ids = {id: (max_episode_steps, kwargs or {}), **vars(definition).get("kernel_ids", {})}
        return definition

    return decorate


@contextmanager
def _decorator_that_checks_nothing():
    package = type(
        "Plain", (type(vecenv.kernel),), {"__call__": lambda self, *args, **kwargs: _kernel(*args, **kwargs)}
    )
    with mock.patch.object(define, "kernel", _kernel), mock.patch.object(vecenv.kernel, "Queue", Queue, create=True):
        before = vecenv.kernel.__class__
        vecenv.kernel.__class__ = package
        try:
            yield
        finally:
            vecenv.kernel.__class__ = before


def load(name):
    """A copy of a module of kernels, unchecked, with its arrays and `np` as kernels see them."""
    own = (name, "vecenv.envs._minatar", "vecenv.envs._minigrid")
    before = {key: sys.modules.pop(key) for key in own if key in sys.modules}
    with _decorator_that_checks_nothing():
        module = importlib.import_module(name)
    loaded = [sys.modules.pop(key) for key in own if key in sys.modules]
    sys.modules.update(before)
    for one in loaded:
        given = vars(one)
        for key, value in given.items():
            if value is np:
                given[key] = PlainNumPy()
            elif isinstance(value, np.ndarray):
                given[key] = plain(value)
    return module


def definition_of(module):
    return next(value for value in vars(module).values() if isinstance(value, type) and "kernel_ids" in vars(value))


class NativeEnv:
    """One env as native code, with the methods of an env of Gymnasium's."""

    def __init__(self, definition, **params):
        self.envs = vecenv.make(definition, 1, engine="compiled", autoreset="disabled", workers=1, **params)

    def reset(self, seed=None):
        obs, info = self.envs.reset(seed=seed)
        return self._first(obs), self._first(info)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.envs.step(np.asarray(action)[None])
        return self._first(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), self._first(info)

    def close(self):
        self.envs.close()

    def _first(self, values):
        return {key: value[0] for key, value in values.items()} if isinstance(values, dict) else values[0]
