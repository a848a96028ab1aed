"""C MuJoCo behind the seam of `WarpPhysics`: tests of a task's launches do not need `mujoco_warp`."""

import copy
import math

import mujoco

from vecenv.mujoco._simulator import AFTERWARDS, STATE_FIELDS, model_field


class HostPhysics:
    """One C simulation after another in place of one of all envs, with the same memory in floats of 32 bits."""

    remark = ""

    def __init__(self, kernel, count, wp, device, check_room):
        assert not device.is_cuda
        self._task, self._count = kernel.original, count
        self._model = copy.copy(self._task.model)
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # of simulations that diverge
        self._data = mujoco.MjData(self._model)
        self._fields = kernel.simulation
        sizes = {name: count * math.prod(kernel.state[name].shape) for name in self._fields}
        self.arrays = {
            name: wp.zeros(size, dtype=getattr(wp, kernel.state[name].dtype.name), device=device)
            for name, size in sizes.items()
        }
        self._views = {
            name: array.numpy().reshape(count, *kernel.state[name].shape) for name, array in self.arrays.items()
        }
        self.calls = []

    def advance(self, stream=None):
        self.calls.append("advance")
        for row in range(self._count):
            self._put(row)
            mujoco.mj_step(self._model, self._data, self._task.frame_skip)
            mujoco.mj_rnePostConstraint(self._model, self._data)
            self._take(row, frozenset())

    def forward(self, stream=None):
        self.calls.append("forward")
        for row in range(self._count):
            self._put(row)
            mujoco.mj_forward(self._model, self._data)
            self._take(row, AFTERWARDS)

    def _put(self, row):
        mujoco.mj_resetData(self._model, self._data)
        for name, place in self._fields.items():
            value = self._views[name][row]
            if place.startswith("model."):
                model_field(self._model, place.removeprefix("model."))[...] = value
            elif place == "time":
                self._data.time = value
            elif place in STATE_FIELDS | {"qacc_warmstart"}:
                getattr(self._data, place)[...] = value

    def _take(self, row, left_out):
        for name, place in self._fields.items():
            if place == "time":
                self._views[name][row] = self._data.time
            elif place != "overflow" and "." not in place and place not in left_out:
                self._views[name][row] = getattr(self._data, place)
