"""MuJoCo's physics on a device, by `mujoco_warp`, which this module and `_capsules.py` import."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

from vecenv._util.forks import FORK_LOCK
from vecenv.errors import ConfigError, EngineRefused, MissingExtra
from vecenv.mujoco._device import DeviceTask
from vecenv.mujoco._simulator import AFTERWARDS, mujoco

_MOST_CONTACTS = 64
"""Contacts of one env that there is room for, unless its model cannot have as many. Envs share the room: if there are
more contacts than it has, `mujoco_warp` says so of all envs."""


def mujoco_warp() -> Any:
    """The module `mujoco_warp`, with contacts of capsules mended (`_capsules.py`). Raises MissingExtra."""
    with FORK_LOCK:
        try:
            import mujoco_warp  # pyright: ignore[reportMissingImports]  # optional
        except ModuleNotFoundError as error:
            if error.name not in ("mujoco_warp", "etils", "absl"):
                raise
            raise MissingExtra(
                f"MuJoCo tasks on a device need mujoco_warp ({error}): pip install 'vecenv[gpu,mujoco]'"
            ) from None
        from vecenv.mujoco._capsules import mend

        mend()
    return mujoco_warp


class WarpPhysics:
    """One simulation of all envs of a task.

    Args:
        kernel: of the task.
        count: number of envs.
        wp: the module `warp`, set up.
        device: Warp's.
        check_room: gets the bytes that the simulation needs before they are taken, and raises if there are fewer.

    Attributes:
        arrays: the simulation's memory by the names of the kernel's fields: flat arrays, one row of each after another.
        remark: what is otherwise than the model says, "" if nothing is.

    Raises:
        ConfigError: there is too little memory; nothing is left allocated.
        EngineRefused: the model, or a field that the task uses, has no counterpart in `mujoco_warp`; it is named.
    """

    def __init__(self, kernel: DeviceTask, count: int, wp: Any, device: Any, check_room: Callable[[int], None]) -> None:
        self._library, self._warp, self._device = mujoco_warp(), wp, device
        original = kernel.original
        self._frame_skip, self._afterwards = original.frame_skip, not AFTERWARDS.isdisjoint(original.fields)
        model, self.remark = _with_known_solver(original.model)
        contacts, rows = _room(model)
        with wp.ScopedDevice(device):
            try:
                batched = _batched(self._library, original.model_params, count)
                self._model = self._library.put_model(model, batch_sizes=batched)
            except NotImplementedError as error:
                raise _refused(kernel, str(error)) from None
            self._model.opt.warn_overflow = 0  # a word of the simulation says so too, which `trouble` reads
            for name in original.model_params:
                if name not in batched and hasattr(self._model.opt, name):
                    setattr(self._model.opt, name, _repeated(wp, getattr(self._model.opt, name), count))
            try:
                one = self._library.make_data(model, nworld=1, nconmax=contacts, njmax=rows)
                check_room(count * _bytes_of(wp, one))
                self._data = self._library.make_data(model, nworld=count, nconmax=contacts, njmax=rows)
            except (RuntimeError, MemoryError) as error:
                raise ConfigError(
                    f"simulations of {count} envs do not fit the memory of {device.alias}; make fewer ({error})"
                ) from None
        self._originals = {name: self._found(kernel, name, place) for name, place in kernel.simulation.items()}
        self.arrays = {
            name: self._flat(kernel, name, array, count * math.prod(kernel.state[name].shape))
            for name, array in self._originals.items()
        }
        self._graphs: dict[str, Any] = {}

    def advance(self, stream: Any = None) -> None:
        """Make `frame_skip` steps of all envs."""
        self._run("advance", self._advance, stream)

    def forward(self, stream: Any = None) -> None:
        """Compute everything that depends on positions and velocities, of all envs."""
        self._run("forward", lambda: self._library.forward(self._model, self._data), stream)

    def _advance(self) -> None:
        for _ in range(self._frame_skip):
            self._library.step(self._model, self._data)
        if self._afterwards:
            self._library.rne_postconstraint(self._model, self._data)

    def _run(self, name: str, work: Callable[[], None], stream: Any) -> None:
        """Run some of the library's launches. They are many: on a GPU, one graph from the second time on."""
        wp = self._warp
        with wp.ScopedDevice(self._device):
            if not self._device.is_cuda:
                work()
                return
            with wp.ScopedStream(stream or self._device.stream):
                if name not in self._graphs:  # the first time compiles and allocates, which no graph can
                    self._graphs[name] = None
                    work()
                    return
                if self._graphs[name] is None:
                    with wp.ScopedCapture(device=self._device) as capture:
                        work()
                    self._graphs[name] = capture.graph
                wp.capture_launch(self._graphs[name])

    def _found(self, kernel: DeviceTask, name: str, place: str) -> Any:
        of_model, _, own = place.rpartition(".")
        owners = (self._model, self._model.opt) if of_model else (self._data,)
        found = next((array for owner in owners if (array := getattr(owner, own, None)) is not None), None)
        if not isinstance(found, self._warp.array):
            raise _refused(kernel, f"there is no {own} in mujoco_warp {self._library.__version__}")
        return found

    def _flat(self, kernel: DeviceTask, name: str, array: Any, size: int) -> Any:
        wp, wanted = self._warp, kernel.state[name].dtype
        element = getattr(wp, wanted.name)
        words = array.size * array.strides[-1] // wanted.itemsize
        scalar = getattr(array.dtype, "_wp_scalar_type_", array.dtype)  # of a vector, its numbers
        if words != size or not array.is_contiguous or scalar is not element:
            raise _refused(kernel, f"{name} has another shape or type in mujoco_warp {self._library.__version__}")
        return wp.array(ptr=array.ptr, dtype=element, shape=(size,), device=self._device)


def _refused(kernel: DeviceTask, why: str) -> EngineRefused:
    why = re.sub(r"\s+", " ", why).strip().rstrip(".")
    return EngineRefused(f"{kernel.id} cannot run on a device: {why}; use engine='mujoco'")


def _with_known_solver(model: Any) -> tuple[Any, str]:
    """The model, with Newton's solver in place of PGS, which `mujoco_warp` lacks; and what to say about it."""
    solvers = mujoco().mjtSolver
    if model.opt.solver != solvers.mjSOL_PGS:
        return model, ""
    model = copy.copy(model)
    model.opt.solver, model.opt.iterations = solvers.mjSOL_NEWTON, max(100, model.opt.iterations)
    return model, "contacts by Newton's method, not by PGS as the model says"


def _bytes_of(wp: Any, data: Any) -> int:
    """Bytes of the arrays of a dataclass, and of those in it."""
    values = [getattr(data, each.name) for each in dataclasses.fields(data)]
    nested = sum(_bytes_of(wp, value) for value in values if dataclasses.is_dataclass(value))
    return nested + sum(value.capacity for value in values if isinstance(value, wp.array))


def _batched(library: Any, names: tuple[str, ...], count: int) -> dict[str, int]:
    """The fields of the model that differ from env to env, each with the number of envs."""
    known = {each.name: getattr(each.type, "shape", ()) for each in dataclasses.fields(library.Model)}
    return {name: count for name in names if known.get(name, ())[:1] == ("*",)}


def _repeated(wp: Any, array: Any, count: int) -> Any:
    return wp.array([array.numpy()[0]] * count, dtype=array.dtype, device=array.device)


def _room(model: Any) -> tuple[int, int]:
    """Contacts and rows of constraints that one env may have."""
    bindings = mujoco()
    geoms = int(((model.geom_contype != 0) | (model.geom_conaffinity != 0)).sum())
    pairs = geoms * (geoms - 1) // 2 + model.npair
    contacts = min(_MOST_CONTACTS, 8 * pairs)
    sizes = [int(dims.max()) for dims in (model.geom_condim, model.pair_dim) if dims.size]
    dimensions = max(sizes, default=1)
    is_pyramid = model.opt.cone == bindings.mjtCone.mjCONE_PYRAMIDAL
    each = max(1, 2 * (dimensions - 1)) if is_pyramid else dimensions
    others = 6 * model.neq + model.nv + 2 * (model.njnt + 2 * model.ntendon)  # equality, friction, limits
    return max(contacts, 1), max(contacts * each + others, 1)
