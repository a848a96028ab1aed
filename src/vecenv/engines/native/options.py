"""Options of the engines that run native code, and how they read the constructor arguments of kernels and tasks."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gymnasium.envs.registration import registry as gymnasium_registry

from vecenv._util.checks import positive_int
from vecenv.engines import Engine, registry
from vecenv.engines.options import EngineOptions, Order
from vecenv.engines.request import Request, Source
from vecenv.envs._frames import frame_metadata, is_drawn_by_gymnasium
from vecenv.errors import ConfigError
from vecenv.kernel.language.define import Kernel
from vecenv.mujoco._registry import GYMNASIUM

if TYPE_CHECKING:
    from vecenv.engines.native.compiled import CompiledEngine
    from vecenv.kernel.backend import Precision

STRUCTURE = ("xml_file", "frame_skip")
"""Arguments of a task that decide what is compiled; they are the same for all envs."""
SHARED = f"envs of a task share {', '.join(STRUCTURE)} and the camera; give all rows the same"
NATIVE_CANNOT = {
    "wrappers": "wrappers wrap Python envs, and native code has none",
    "observation_mode": "envs that are native code all have the same spaces",
    "timeout": "native code cannot be interrupted when it hangs",
    "on_error": "native code does not raise, so there is no failed env to build again",
}
"""What no engine of native code can do, and why."""
_OF_GYMNASIUM_MAKE = ("max_episode_steps", "disable_env_checker", "render_mode")
"""Arguments that are `gymnasium.make`'s, not the env's."""


@dataclass(frozen=True)
class Compiled(EngineOptions):
    """Kernels, as native code.

    Attributes:
        workers: threads at most; default: the processors this process may use. Whether they are worth it is measured.
        precision: "exact" (bit-equal to Python) or "fast" (several envs per instruction; sin, exp and the like within a
            few units in the last place).
        check: "bounds" checks indices, integer divisions, overflow and endless loops in native code: a KernelFault
            names env, field, value and line. None checks nothing.
        order: "first-ready" or "fixed"; rows are received in the order of their sends either way.
    """

    workers: int | None = None
    precision: Precision = "exact"
    check: Literal["bounds"] | None = None
    order: Order = "first-ready"

    name: ClassVar[str] = "compiled"
    where: ClassVar[str] = "in native code"
    use_for: ClassVar[str] = "kernels: your own, and those of Gymnasium's envs that come with vecenv"
    needs: ClassVar[tuple[str, str] | None] = ("numba", "numba")
    native: ClassVar[bool] = True
    has_states: ClassVar[bool] = True
    in_actors: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = NATIVE_CANNOT

    @classmethod
    def unavailable(cls) -> str | None:
        return super().unavailable() or no_native_code()

    def reason(self, source: Source) -> str | None:
        """Why `auto` prefers this engine, None without a kernel."""
        if source.kernel is None:
            return None
        return f"{source.kernel.id} has a kernel: native code, bit-equal to the Python env"

    def refuses(self, source: Source, request: Request) -> str | None:
        kernel = source.kernel
        if kernel is None:
            able = registry.words(registry.python_engines())
            return f"there is no kernel of this env; write one with @vecenv.kernel, or use {able}"
        unfit = super().refuses(source, request) or refuses_platform(self)
        if unfit is not None:
            return unfit
        render_mode = split_kwargs(kernel, source.env_kwargs)[1].get("render_mode")
        if render_mode is None:
            return None
        modes = frame_metadata(kernel)["render_modes"]
        if render_mode == "human" and "rgb_array" in modes and "human" not in modes:
            return "a window ('human') shows one env; use engine='sync', or render_mode='rgb_array'"
        if render_mode not in modes or (kernel.render is None and not is_drawn_by_gymnasium(kernel)):
            return f"the kernel of {kernel.id} cannot draw {render_mode!r}; Gymnasium's own env may, with engine='sync'"
        return None

    def build(self, source: Source, request: Request) -> Engine:
        assert source.kernel is not None
        ours, theirs = split_kwargs(source.kernel, source.env_kwargs)
        return engine_class(source.kernel, theirs.get("render_mode"))(
            source.kernel,
            request.num_envs,
            kwargs=ours,
            precision=self.precision,
            check=self.check is not None,
            threads=self.count_workers(request.num_envs),
            render_mode=theirs.get("render_mode"),
            max_episode_steps=time_limit(source.kernel, theirs),
        )


@dataclass(frozen=True)
class Mujoco(EngineOptions):
    """MuJoCo tasks, as native code around the MuJoCo that is installed.

    Attributes:
        workers: number of threads; default: the processors this process may use, at most one per env.
        order: "first-ready" or "fixed"; rows are received in the order of their sends either way.
    """

    workers: int | None = None
    order: Order = "first-ready"

    name: ClassVar[str] = "mujoco"
    where: ClassVar[str] = "in native code around the MuJoCo you installed"
    use_for: ClassVar[str] = "Gymnasium's eleven v5 tasks, bit-equal, and tasks of your own"
    needs: ClassVar[tuple[str, str] | None] = ("mujoco", "vecenv[mujoco]")
    native: ClassVar[bool] = True
    has_states: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = NATIVE_CANNOT

    @classmethod
    def unavailable(cls) -> str | None:
        return super().unavailable() or no_native_code()

    def reason(self, source: Source) -> str | None:
        """Why `auto` prefers this engine, None without a task."""
        if source.task is None:
            return None
        return f"{source.task.id or source.task.__name__} is a MuJoCo task: {_made_of(source.task)}"

    def refuses(self, source: Source, request: Request) -> str | None:
        if source.task is None:
            able = registry.words(registry.python_engines())
            return f"there is no MuJoCo task of this env; write one (vecenv.mujoco.Task), or use {able}"
        if source.task_kernel is None:
            return SHARED if is_installed() else "MuJoCo is not installed; pip install 'vecenv[mujoco]'"
        unfit = super().refuses(source, request) or refuses_platform(self)
        if unfit is not None:
            return unfit
        if split_kwargs(source.task_kernel, source.env_kwargs)[1].get("render_mode") == "human":
            return "a window shows one env; use engine='sync', or render_mode='rgb_array'"
        return None

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.native.mujoco import MujocoEngine

        ours, theirs = split_kwargs(source.task_kernel, source.env_kwargs)
        return MujocoEngine(
            source.task_kernel,
            request.num_envs,
            kwargs=task_params(ours),
            threads=self.count_workers(request.num_envs),
            render_mode=theirs.get("render_mode"),
            max_episode_steps=time_limit(source.task_kernel, theirs),
        )


def no_native_code() -> str | None:
    """Why native code cannot run on this platform, None if it can."""
    from vecenv.kernel.numba.trial import native_code_fails

    return native_code_fails()


def refuses_platform(engine: EngineOptions) -> str | None:
    """The refusal of an engine on a platform where native code cannot run, None elsewhere."""
    unfit = no_native_code()
    able = registry.words(registry.python_engines())
    return None if unfit is None else f"the {engine.name} engine cannot run here: {unfit}; use {able}"


def engine_class(kernel: Kernel, render_mode: str | None) -> type[CompiledEngine]:
    """The class of the engine that runs a kernel: its own if Gymnasium's env draws the frames."""
    from vecenv.engines.native.compiled import CompiledEngine
    from vecenv.engines.native.drawn import DrawnEngine

    return DrawnEngine if render_mode is not None and is_drawn_by_gymnasium(kernel) else CompiledEngine


def task_params(kwargs: Any) -> Any:
    """Of the arguments of a task, one mapping or one per env, those that are its parameters."""
    from vecenv.mujoco._kernel import CAMERA

    if isinstance(kwargs, list):
        return [task_params(row) for row in kwargs]
    return {name: value for name, value in kwargs.items() if name not in {*STRUCTURE, *CAMERA}}


def is_installed() -> bool:
    """Whether MuJoCo is installed."""
    return importlib.util.find_spec("mujoco") is not None


def _made_of(task: Any) -> str:
    if not is_installed():
        return "native code around MuJoCo"
    from importlib.metadata import version

    equal = "Gymnasium's env" if task.id in GYMNASIUM else "its run in Python"
    return f"native code around MuJoCo {version('mujoco')}, bit-equal to {equal}"


def split_kwargs(kernel: Kernel, env_kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Split constructor arguments into the kernel's (one mapping, or one per env) and those of `gymnasium.make`."""
    registered = gymnasium_registry[kernel.id].kwargs if _is_gymnasiums(kernel) else {}
    if isinstance(env_kwargs, (list, tuple)):
        rows = [{**registered, **(entry or {})} for entry in env_kwargs]
        parts = [_split(row) for row in rows]
        if any(theirs != parts[0][1] for _, theirs in parts):
            raise ConfigError("envs of a kernel share max_episode_steps and render_mode; give all rows the same")
        return [ours for ours, _ in parts], parts[0][1]
    return _split({**registered, **(env_kwargs or {})})


def time_limit(kernel: Kernel, given: Mapping[str, Any]) -> int | None:
    """Steps of an episode: what was asked for (-1 for no limit, as in Gymnasium), else the registered limit."""
    asked = given.get("max_episode_steps")
    if asked is not None:
        return None if asked == -1 else positive_int("max_episode_steps", asked)
    return gymnasium_registry[kernel.id].max_episode_steps if _is_gymnasiums(kernel) else kernel.max_episode_steps


def _is_gymnasiums(kernel: Kernel) -> bool:
    """Whether the kernel stands for an env that Gymnasium itself registers."""
    spec = gymnasium_registry.get(kernel.id)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs.")


def _split(kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    ours = dict(kwargs)
    return ours, {name: ours.pop(name) for name in _OF_GYMNASIUM_MAKE if name in ours}
