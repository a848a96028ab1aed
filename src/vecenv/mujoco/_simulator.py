"""MuJoCo itself: models, and simulators that native code runs. The only module that imports it."""

from __future__ import annotations

import copy
import ctypes
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vecenv._util.forks import cached_property
from vecenv.errors import ConfigError, MissingExtra

WORDS = 16
"""Words of a simulator for native code: addresses of mj_step, mj_rnePostConstraint (0: not needed), mj_forward,
mj_resetData, mj_getState, mj_setState, of the model and the data; frame_skip; the parts of a state; address of the
first counter of the warnings `BAD` and bytes to the next; address and number of positions; address and number of
velocities."""
_FUNCTIONS = ("mj_step", "mj_rnePostConstraint", "mj_forward", "mj_resetData", "mj_getState", "mj_setState")
AFTERWARDS = frozenset({"cfrc_ext", "cfrc_int", "cacc"})
"""Fields that MuJoCo computes only on request."""
_MOVING = ("efc_", "iefc_", "iacc", "ifrc_", "efm_")
"""Fields whose address changes with every step."""
STATE_FIELDS = frozenset(
    {"qpos", "qvel", "act", "ctrl", "qfrc_applied", "xfrc_applied", "mocap_pos", "mocap_quat", "userdata"}
)
"""Fields that are part of a state; a step computes all others from them."""
BAD = ("position", "velocity", "acceleration", "control")
"""MuJoCo's warnings about a diverged simulation: four kinds in a row, from `mjWARN_BADQPOS` on."""

KINDS = (*BAD, "number of contacts, for which a device has no room")
"""What can be bad about a diverged simulation, by the numbers from 1 on."""


def mujoco() -> Any:
    """The installed MuJoCo module. Raises MissingExtra."""
    try:
        import mujoco
    except ImportError:
        raise MissingExtra("this env needs MuJoCo; pip install 'vecenv[mujoco]'") from None
    return mujoco


def load_model(source: str) -> Any:
    """Compile a model: the text of an XML file, or a path. Raises a ConfigError that includes MuJoCo's message."""
    bindings = mujoco()
    is_text = source.lstrip().startswith("<")
    if not is_text and not Path(source).is_file():
        raise ConfigError(f"there is no model file {source!r}; pass a path to an XML file, or its text")
    try:
        return (bindings.MjModel.from_xml_string if is_text else bindings.MjModel.from_xml_path)(source)
    except ValueError as error:
        what = "the model" if is_text else f"the model {source!r}"
        raise ConfigError(f"MuJoCo cannot compile {what}: {error}") from None


def state_size(model: Any) -> int:
    """Size of a state: everything that the next step depends on, warm start included."""
    bindings = mujoco()
    return int(bindings.mj_stateSize(model, int(bindings.mjtState.mjSTATE_INTEGRATION)))


def state_parts(model: Any) -> dict[str, tuple[int, int]]:
    """Where the parts of a state begin and their sizes, by the names of MuJoCo's fields; empty ones are left out."""
    bindings, parts, place = mujoco(), {}, 0
    every = int(bindings.mjtState.mjSTATE_INTEGRATION)
    names = {int(bit): name for name, bit in bindings.mjtState.__members__.items() if int(bit).bit_count() == 1}
    for bit in sorted(names):
        if bit & every:
            size = int(bindings.mj_stateSize(model, bit))
            name = names[bit].removeprefix("mjSTATE_").lower()
            if size:
                parts[{"warmstart": "qacc_warmstart"}.get(name, name)] = place, size
            place += size
    return parts


def initial_data(model: Any) -> Any:
    """A simulation in the model's own initial state, with everything that depends on it."""
    data = mujoco().MjData(model)
    mujoco().mj_forward(model, data)
    return data


def data_fields(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of a simulation's numeric arrays, by their names in `mjData`."""
    return _shapes(mujoco().MjData(model), _MOVING)


def model_fields(model: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of a model's numeric arrays, by their names in `mjModel`, and those of options such as `gravity`."""
    return {**_shapes(model, ()), **_shapes(model.opt, ())}


def model_field(model: Any, name: str) -> np.ndarray:
    """One of `model_fields`, as a view of the model's memory."""
    return getattr(model if hasattr(model, name) else model.opt, name)


def _shapes(owner: Any, left_out: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name in dir(type(owner)):
        if name.startswith(("_", *left_out)):
            continue
        value = getattr(owner, name, None)
        if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim:
            shapes[name] = value.shape
    return shapes


@functools.cache
def _addresses() -> tuple[int, ...]:
    """Addresses of libmujoco's functions, in the order of `_FUNCTIONS`."""
    folder = Path(mujoco().__file__).parent
    found = [path for pattern in ("libmujoco*.so*", "libmujoco*.dylib", "mujoco.dll") for path in folder.glob(pattern)]
    if not found:
        raise ConfigError(f"there is no MuJoCo library in {folder}; install the package mujoco again")
    library = ctypes.CDLL(str(found[0]))  # Python has already loaded this library
    return tuple(ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS)


class Simulator:
    """A model and its simulation, for one thread.

    Args:
        model: the model; with `own`, a copy of it whose numbers may be changed.
        frame_skip: steps of MuJoCo per step of an env.
        fields: names of the fields that are read, which decide what is computed.
        own: whether to copy the model.
    """

    def __init__(self, model: Any, frame_skip: int, fields: Iterable[str], own: bool) -> None:
        self._mujoco = mujoco()
        self.model = copy.copy(model) if own else model
        self.data = self._mujoco.MjData(self.model)
        self.frame_skip = frame_skip
        self.computes_afterwards = not AFTERWARDS.isdisjoint(fields)
        self._parts = int(self._mujoco.mjtState.mjSTATE_INTEGRATION)

    @cached_property
    def words(self) -> np.ndarray:
        """The words that native code needs, see `WORDS`."""
        step, afterwards, *others = _addresses()
        data, warnings = self.data, self._warnings()
        words = [step, afterwards if self.computes_afterwards else 0, *others]
        words += [self.model._address, data._address, self.frame_skip, self._parts]
        words += [warnings.ctypes.data, warnings.strides[0], data.qpos.ctypes.data, data.qpos.size]
        words += [data.qvel.ctypes.data, data.qvel.size]
        return np.array(words, np.int64)

    # --- the same for Python -----------------------------------------------------------------------------------------

    def load(self, physics: np.ndarray) -> None:
        """Continue from a state."""
        self._mujoco.mj_setState(self.model, self.data, np.asarray(physics), self._parts)

    def save(self, physics: np.ndarray) -> None:
        """Write the state."""
        self._mujoco.mj_getState(self.model, self.data, np.asarray(physics), self._parts)

    def clear(self) -> None:
        """Reset to the model's initial state."""
        self._mujoco.mj_resetData(self.model, self.data)

    def forward(self) -> None:
        """Compute everything that depends on the state."""
        self._mujoco.mj_forward(self.model, self.data)

    def advance(self) -> None:
        """Make `frame_skip` steps."""
        self._mujoco.mj_step(self.model, self.data, self.frame_skip)
        if self.computes_afterwards:
            self._mujoco.mj_rnePostConstraint(self.model, self.data)

    def trouble(self) -> int:
        """Which value is bad if the simulation has diverged, 1 for the first of `BAD`, else 0."""
        numbers = self._warnings()
        found = next((kind for kind, number in enumerate(numbers, 1) if number), 0)
        numbers[...] = 0
        for kind, values in ((1, self.data.qpos), (2, self.data.qvel)):
            found = found or (0 if np.isfinite(values).all() else kind)
        return found

    def _warnings(self) -> np.ndarray:
        """Counters of the warnings `BAD`; their position depends on the version of MuJoCo."""
        first = int(self._mujoco.mjtWarning.mjWARN_BADQPOS)
        return self.data.warning.number[first : first + len(BAD)]


def what_is_bad(kind: int) -> str:
    """The kind of a divergence in words."""
    return KINDS[kind - 1]
