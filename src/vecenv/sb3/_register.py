"""Makes Stable-Baselines3 recognise our classes, whichever is imported first, without importing it.

Its classes are ABCs: `SB3Class.register(Ours)` makes ours subclasses of theirs without inheritance.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from vecenv.sb3.base_vec_env import VecEnv

_THEIRS = "stable_baselines3.common.vec_env"
_OURS = "vecenv.sb3"
CLASSES = (
    "VecEnv",
    "VecEnvWrapper",
    "DummyVecEnv",
    "SubprocVecEnv",
    "VecCheckNan",
    "VecExtractDictObs",
    "VecFrameStack",
    "VecMonitor",
    "VecNormalize",
    "VecTransposeImage",
    "VecVideoRecorder",
)


def watch() -> None:
    """Register our classes now if Stable-Baselines3 is loaded, else as soon as it is."""
    theirs = sys.modules.get(_THEIRS)
    if theirs is not None:
        register_all(theirs)
    elif not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


def register_all(theirs: ModuleType) -> None:
    """Make our classes subclasses of those of the same name in `stable_baselines3.common.vec_env`."""
    ours = importlib.import_module(_OURS)
    for name in CLASSES:
        if hasattr(theirs, name):
            getattr(theirs, name).register(getattr(ours, name))


def is_vec_env(thing: Any) -> bool:
    """Whether this is a VecEnv, ours or Stable-Baselines3's."""
    return isinstance(thing, (VecEnv, counterpart(VecEnv)))


def counterpart(ours: type) -> type:
    """The class of the same name in Stable-Baselines3; ours itself if that is not loaded."""
    return getattr(sys.modules.get(_THEIRS), ours.__name__, ours)


class _Watcher(MetaPathFinder):
    """Finds nothing by itself: it lets others find Stable-Baselines3 and acts when that has been loaded."""

    def __init__(self) -> None:
        self._asking = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _THEIRS or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        load = loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            sys.meta_path.remove(self)
            register_all(module)

        loader.exec_module = load_and_register
