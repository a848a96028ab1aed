"""Build a kernel from a task and a model: fields of the simulation, parameters, and functions around the user's."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from vecenv._util.checks import positive_int
from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, ConfigTypeError, KernelError
from vecenv.kernel.language.declared import read_fields, read_methods, read_params, with_bounds, with_shapes
from vecenv.kernel.language.define import Kernel, check
from vecenv.kernel.language.fields import Field
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.source import read_source, remember, share_source
from vecenv.kernel.language.twins import twin_module
from vecenv.mujoco._physics import advance, clear, forward, load, save, trouble
from vecenv.mujoco._simulator import (
    STATE_FIELDS,
    WORDS,
    Simulator,
    data_fields,
    load_model,
    model_field,
    model_fields,
    state_size,
)
from vecenv.mujoco._task import Task

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
CAMERA = ("default_camera_config", "width", "height", "camera_id", "camera_name", "max_geom", "visual_options")
"""Arguments of `make` that are only for rendering."""
_FUNCTIONS = ("reset", "begin", "control", "reward", "terminated", "truncated", "observe")
_OF_MODEL = ("timestep", "dt")
"""Parameters of every task."""
_OURS = "vecenv.mujoco.tasks."
_RENDER_MODES = ("human", "rgb_array", "depth_array", "rgbd_tuple")


@dataclass(frozen=True, eq=False)
class TaskKernel(Kernel):
    """The kernel of a task with one model.

    Attributes:
        task: the user's class.
        source: source of the model: its XML text, or a path.
        model: MuJoCo's model; its numbers are never changed.
        frame_skip: steps of MuJoCo per step of an env.
        fields: names of the simulation's fields that the task uses.
        model_params: parameters that are fields of the model.
        step_info: infos of steps, which resets do not have.
        camera: arguments for rendering.
        natives: native code that was compiled for it, by shapes of observations.
    """

    task: type[Task] = Task
    source: str = ""
    model: Any = None
    frame_skip: int = 1
    fields: tuple[str, ...] = ()
    model_params: tuple[str, ...] = ()
    step_info: frozenset[str] = frozenset()
    camera: Mapping[str, Any] = field(default_factory=dict)
    natives: dict[Any, Any] = field(default_factory=dict)

    def simulator(self) -> Simulator:
        """A simulator for one thread; it may change its model's numbers if envs have their own."""
        return Simulator(self.model, self.frame_skip, self.fields, own=bool(self.model_params))

    def memory(self, simulator: Simulator) -> dict[str, np.ndarray]:
        """The arrays behind the shared fields."""
        arrays = {name: getattr(simulator.data, name) for name in self.fields}
        return arrays | {f"model_{name}": model_field(simulator.model, name) for name in self.model_params}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.task, self.source, self.frame_skip, dict(self.camera))


def _rebuilt(task: type[Task], source: str, frame_skip: int, camera: dict[str, Any]) -> TaskKernel:
    """Rebuild the kernel when it is unpickled."""
    return build_task(task, {"xml_file": source, "frame_skip": frame_skip, **camera})[0]


def build_task(task: type[Task], kwargs: Mapping[str, Any]) -> tuple[TaskKernel, dict[str, Any]]:
    """The kernel of a task, and the arguments of `make` that are values of its parameters.

    Raises:
        ConfigError: the model does not exist, or MuJoCo cannot compile it.
        KernelError: the definition breaks a rule.
    """
    rest = dict(kwargs)
    given = rest.pop("xml_file", None)
    frame_skip = positive_int("frame_skip", rest.pop("frame_skip", task.frame_skip))
    camera = {name: rest.pop(name) for name in CAMERA if name in rest}
    if given is None and not camera and task.__module__.startswith(_OURS):
        return _cached_kernel(task, frame_skip), rest
    return _built(task, given if given is not None else _declared_model(task), frame_skip, camera), rest


@functools.cache
def _cached_kernel(task: type[Task], frame_skip: int) -> TaskKernel:
    """The kernel of one of vecenv's own tasks, with a model from Gymnasium; neither changes, so it is cached."""
    return _built(task, _declared_model(task), frame_skip, {})


def _built(task: type[Task], given: str, frame_skip: int, camera: dict[str, Any]) -> TaskKernel:
    source = _found(given, task)
    model = load_model(source)
    known = data_fields(model)
    used = _used_fields(task, known)
    info, step_info = _fields_of(task, "info", model), _fields_of(task, "step_info", model)
    own = _own_fields(model, used, task.model_params)
    state = _fields_of(task, "state", model)
    _check_names(task, [*state, *info, *step_info], {*known, *own})
    params, defaults = _params(task, model, frame_skip)
    definition = _definition(task, model, frame_skip, params, step_info)
    kernel = TaskKernel(
        id=task.id or task.__name__,
        definition=definition,
        max_episode_steps=task.max_episode_steps,
        kwargs={},
        state={**state, **own, **info, **step_info},
        info=(*info, *step_info),
        params=params,
        defaults=defaults,
        methods=_noting(read_methods, definition),
        render=_draw,
        shared=frozenset({"simulator", *used, *(f"model_{name}" for name in task.model_params)}),
        fixed=frozenset({*_OF_MODEL, *task.fixed}),
        task=task,
        source=source,
        model=model,
        frame_skip=frame_skip,
        fields=tuple(used),
        model_params=task.model_params,
        step_info=frozenset(step_info),
        camera=camera,
    )
    check(kernel)
    return kernel


def _draw(s: Any, p: Any) -> Any:
    """Called by `KernelEnv.render`."""
    return s.simulator.draw()


def _declared_model(task: type[Task]) -> str:
    source = getattr(task, "model", None)
    if not isinstance(source, str):
        raise KernelError("the task has no model; write model = 'robot.xml', or the text of the XML", task.__name__)
    return source


def _found(source: str, task: type[Task]) -> str:
    """The model as XML text or as a path: as given, relative to the task's file, or among Gymnasium's assets."""
    if not isinstance(source, str):
        raise ConfigError(f"xml_file must be a path or the text of an XML file, got {source!r:.60}")
    if source.lstrip().startswith("<"):
        return source
    if source.startswith((".", "/", "~")):
        return str(Path(source).expanduser())
    try:
        beside = Path(inspect.getsourcefile(task) or "").with_name(source)
    except (OSError, TypeError, ValueError):  # a class from a notebook or a prompt has no file
        beside = Path(source)
    return str(next((path for path in (beside, ASSETS / source) if path.exists()), source))


def _noting(read: Callable[..., Any], *arguments: Any) -> Any:
    """What a class declares; all its mistakes are one KernelError."""
    found = Found()
    declared = read(*arguments, found)
    found.raise_all()
    return declared


def _fields_of(task: type[Task], kind: str, model: Any) -> dict[str, Field]:
    declared = getattr(task, kind)
    owner = type(task.__name__, (), {kind: declared(model) if callable(declared) else declared})
    return _noting(read_fields, owner, kind)


def _own_fields(model: Any, used: Mapping[str, tuple[int, ...]], model_params: Iterable[str]) -> dict[str, Field]:
    """Fields of the simulation, of the state that each env keeps, and of the last state before a divergence."""
    number = np.dtype(np.float64)
    size = state_size(model)
    fields = {name: Field(name, number, shape) for name, shape in used.items()}
    shapes = model_fields(model) if model_params else {}
    fields |= {f"model_{name}": Field(f"model_{name}", number, shapes[name]) for name in model_params if name in shapes}
    fields["simulator"] = Field("simulator", np.dtype(np.int64), (WORDS,))
    fields["physics"] = Field("physics", number, (size,))
    fields["failed"] = Field("failed", number, (size,))
    fields["diverged"] = Field("diverged", np.dtype(np.int64))
    return fields


def _check_names(task: type[Task], names: list[str], reserved: set[str]) -> None:
    twice = {name for name in names if names.count(name) > 1 or name in reserved}
    if twice:
        rule = f"the field {min(twice)!r} is declared twice, or is a field of the simulation; use another name"
        raise KernelError(rule, task.__name__)


def _params(task: type[Task], model: Any, frame_skip: int) -> tuple[dict[str, Field], dict[str, np.ndarray]]:
    fields, defaults = _noting(read_params, task)
    known = model_fields(model) if task.model_params else {}
    for name in task.model_params:
        if name not in known:
            hint = did_you_mean(name, known)
            raise KernelError(f"model_params: the model has no array {name!r}{hint}", task.__name__)
        defaults[name] = np.array(model_field(model, name))
        fields[name] = Field(name, defaults[name].dtype, defaults[name].shape)
    timestep = float(model.opt.timestep)
    for name, value in zip(_OF_MODEL, (timestep, timestep * frame_skip), strict=True):
        fields[name], defaults[name] = Field(name, np.dtype(np.float64)), np.array(value)
    return with_shapes(task, with_bounds(task, fields, defaults)), defaults


def _definition(
    task: type[Task], model: Any, frame_skip: int, params: Mapping[str, Field], step_info: Mapping[str, Field]
) -> type:
    """The class that is compiled: the task, functions around the user's, and its spaces for this model."""
    functions: Any = own_functions(task)
    functions += _generated([params[name] for name in task.model_params], step_info.values())
    reset, step = _kernel_functions(*functions)
    for function, source in zip((reset, step), _FUNCTION_SOURCES, strict=True):
        share_source(function, source)
    fps = int(np.round(1.0 / (model.opt.timestep * frame_skip)))
    members: dict[str, Any] = {
        "reset": reset,
        "step": step,
        "observe": _function(task, "observe"),
        "observation_space": _space(task.observation_space, model),
        "action_space": _space(task.action_space, model) or _controls(model),
        "configure": functools.partial(_configured, task, model),
        "metadata": {"render_modes": list(_RENDER_MODES), "render_fps": fps, **task.metadata},
    }
    return type(task.__name__, (), members)


def _configured(task: type[Task], model: Any, **kwargs: Any) -> Mapping[str, Any]:
    for name in _OF_MODEL:
        if name in kwargs:
            raise ConfigError(f"{name} comes from the model; change timestep in the XML, or frame_skip")
    for name in kwargs.keys() & set(task.fixed) - inspect.signature(task.configure).parameters.keys():
        raise ConfigTypeError(f"{task.id or task.__name__} has no argument {name!r}; its value comes from the model")
    configured = task.configure(model, **kwargs)
    if task.__module__.startswith(_OURS):  # whose functions read both numbers of a range
        fields, _ = _noting(read_params, task)
        for name, value in configured.items():
            wanted = fields[name].shape if name in fields else ()
            if wanted and np.shape(value)[-len(wanted) :] != wanted:
                raise ConfigError(f"{name} must have shape {wanted}, got {value!r:.60}")
    return configured


def _space(declared: Any, model: Any) -> Any:
    if isinstance(declared, gymnasium.Space) or not callable(declared):
        return declared
    return staticmethod(functools.partial(declared, model))


def _controls(model: Any) -> Box:
    """The controls within their ranges, as in Gymnasium."""
    low, high = model.actuator_ctrlrange.copy().astype(np.float32).T
    return Box(low=low, high=high, dtype=np.float32)


def own_functions(task: type[Task]) -> list[Any]:
    """The user's functions, in the order of `_FUNCTIONS`, without `observe`."""
    return [_function(task, name) for name in _FUNCTIONS[:-1]]


def _function(task: type[Task], name: str) -> Any:
    function = inspect.getattr_static(task, name)
    return getattr(function, "__func__", function)


# --- the functions around the user's ---------------------------------------------------------------------------------


def _kernel_functions(
    own_reset: Callable[..., Any],
    begin: Callable[..., Any],
    control: Callable[..., Any],
    reward: Callable[..., Any],
    terminated: Callable[..., Any],
    truncated: Callable[..., Any],
    put_model: Callable[..., Any],
    forget: Callable[..., Any],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`reset` and `step` of the kernel, around the user's functions."""

    def reset(s: Any, rng: Any, p: Any) -> None:
        put_model(s, p)
        forget(s)
        clear(s.simulator)
        own_reset(s, rng, p)
        forward(s.simulator)
        begin(s, p)
        save(s.simulator, s.physics)

    def step(s: Any, action: Any, rng: Any, p: Any) -> Any:
        put_model(s, p)
        load(s.simulator, s.physics)
        control(s, action, rng, p)
        advance(s.simulator)
        kind = trouble(s.simulator)
        if kind != 0:
            s.diverged = kind
            s.failed[:] = s.physics
            clear(s.simulator)
            forward(s.simulator)
            save(s.simulator, s.physics)
            return 0.0, False, True
        gained = reward(s, action, p)
        ended = terminated(s, p)
        cut = truncated(s, p)
        save(s.simulator, s.physics)
        return gained, ended, cut

    return reset, step


_PLACEHOLDERS: Any = [_draw] * 8
_FUNCTION_SOURCES = [read_source(function) for function in _kernel_functions(*_PLACEHOLDERS)]
"""Text of these functions, read once: the file on disk may have changed when a task is built."""


def generated_functions(kernel: TaskKernel) -> tuple[Any, Any]:
    """As `_generated`, for a kernel that is built."""
    put = [kernel.params[name] for name in kernel.model_params]
    return _generated(put, [kernel.state[name] for name in kernel.info if name in kernel.step_info])


def _generated(model_params: Iterable[Field], step_info: Iterable[Field]) -> tuple[Any, Any]:
    """`put_model(s, p)` writes the env's parameters to the model, `forget(s)` clears the infos of `step_info`."""
    put = [f"s.model_{field.name}[{_all_of(field)}] = p.{field.name}" for field in model_params]
    zero = {"f": "0.0", "b": "False"}
    forget = [
        f"s.{field.name}{f'[{_all_of(field)}]' if field.shape else ''} = {zero.get(field.dtype.kind, '0')}"
        for field in step_info
    ]
    return written("put_model", "s, p", put), written("forget", "s", forget)


def _all_of(field: Field) -> str:
    return ", ".join(":" * len(field.shape))


def written(name: str, parameters: str, lines: list[str], values: Mapping[str, Any] | None = None) -> Any:
    """A function with these lines, which may name `values`."""
    text = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])
    names: dict[str, Any] = {"__name__": __name__, **(values or {})}
    exec(compile(text, f"<vecenv task: {name}>", "exec"), names)
    remember(names[name], text)
    return names[name]


def _used_fields(task: type[Task], known: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Fields of the simulation that the task's functions use."""
    names: set[str] = set()
    for function in _FUNCTIONS:
        found = _attributes(_function(task, function), set())
        if function == "control":
            early = sorted((found & known.keys()) - STATE_FIELDS)
            if early:
                rule = (
                    f"s.{early[0]} is computed by the step, but control runs before it; copy what you need of the last "
                    "step to a field of `state`, in begin and reward"
                )
                raise KernelError(rule, task.__name__, "control")
        names |= found
    return {name: known[name] for name in sorted(names & known.keys())}


def _attributes(function: Any, seen: set[Any]) -> set[str]:
    """Names of attributes in a function and in the functions that it calls."""
    if function in seen or not isinstance(function, FunctionType) or twin_module(function):
        return set()
    seen.add(function)
    try:
        source = read_source(function)
    except (OSError, TypeError, SyntaxError):  # checking the kernel's rules reports this later
        return set()
    names: set[str] = set()
    for node in ast.walk(source.node):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Call):
            callee = source.evaluate(node.func)
            module = getattr(callee, "__module__", "") or ""
            if module.partition(".")[0] not in ("numpy", "math"):
                names |= _attributes(callee, seen)
    return names
