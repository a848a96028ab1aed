"""MuJoCo tasks on a device: the physics of all envs by `mujoco_warp`, the task's functions as launches around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vecenv._batch.batch import Op
from vecenv.engines.device.engine import DeviceEngine
from vecenv.engines.device.memory import check_room
from vecenv.engines.native.mujoco import report_divergence
from vecenv.kernel.cpp.host import Launcher, find_device, warp
from vecenv.kernel.cpp.rows import PhasedRowProgram
from vecenv.mujoco._device import DeviceTask
from vecenv.mujoco._env import TaskEnv
from vecenv.mujoco._warp import WarpPhysics

_STEPS = 6
"""Which of a launch's words (`host.WORDS`) says how many steps, or here which launch it is."""


class DeviceMujocoEngine(DeviceEngine):
    """Rows of a task on a device.

    Args:
        kernel: of the task.
        count: number of rows.
        **options: as for `DeviceEngine`. Columns are always apart from the host's.

    Attributes:
        warnings: see `SupportsWarnings`.
    """

    kernel: DeviceTask
    can_be_captured = False  # the physics is a graph already, and graphs cannot launch graphs

    def __init__(self, kernel: DeviceTask, count: int, *, device: str = "cpu", **options: Any) -> None:
        self._physics = self._make_physics(kernel, count, device)  # refuses what it cannot do before anything compiles
        self._some_step = False
        self.warnings: list[str] = []
        super().__init__(kernel, count, device=device, **options)
        self.batch.step_info, self.batch.elapsed = kernel.step_info, self._host_columns["ELAPSED"]
        self._taken += ["ELAPSED", "S_diverged"]
        if not self._tensors:  # on the host, what is known about a divergence comes by mail
            del self.batch.info["diverged"], self.batch.final_info["diverged"]

    def _make_physics(self, kernel: DeviceTask, count: int, device: str) -> Any:
        found = find_device(device)
        return WarpPhysics(kernel, count, warp(), found, lambda needed: check_room(needed, count, found))

    @property
    def _is_apart(self) -> bool:
        return True

    def _given_memory(self) -> dict[str, Any]:
        return {f"S_{name}": array for name, array in self._physics.arrays.items()}

    # --- launches ----------------------------------------------------------------------------------------------------

    def _exchange(self, rows: np.ndarray | None, alive: int, over: int) -> int:
        ops = self._host_columns["OP"]
        self._some_step = bool(((ops if rows is None else ops[rows]) > int(Op.RESET)).any())
        ended = super()._exchange(rows, alive, over)
        self._some_step = False
        self._report()
        return ended

    def _launch(self, launcher: Launcher, words: tuple[int, ...], stream: Any = None) -> None:
        alive, steps = words[4], words[_STEPS]
        for step in range(steps):
            for phase in range(PhasedRowProgram.PHASES):
                if phase == 1 and (alive or self._some_step):
                    self._physics.advance(stream)
                if phase == 2 and self._some_begin():
                    self._physics.forward(stream)
                number = step * PhasedRowProgram.PHASES + phase
                super()._launch(launcher, (*words[:_STEPS], number, *words[_STEPS + 1 :]), stream)

    def _some_begin(self) -> bool:
        """Whether an env begins an episode. The host does not wait for a GPU to know: there it may be."""
        memory = self.columns_apart
        assert memory is not None
        return self.device != "cpu" or bool(memory.arrays["TODO"].numpy().any())

    # --- the host ----------------------------------------------------------------------------------------------------

    def rollout(self, *arguments: Any, **keywords: Any) -> dict[str, np.ndarray]:
        out = super().rollout(*arguments, **keywords)
        self._report()
        self.batch.mail.clear()  # a rollout has no place for it
        return out

    def _report(self) -> None:
        diverged = self._host_columns["S_diverged"]
        if diverged.any():
            report_divergence(self.kernel.original, self._columns, self.batch, self.warnings)

    @property
    def own_fields(self) -> list[str]:
        return self.kernel.own

    def _parts_of(self, row: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        params, state = super()._parts_of(row)
        return params, {name: state[name] for name in self.kernel.own}

    def _snapshot(
        self,
        params: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray] | None = None,
        render_mode: str | None = None,
    ) -> TaskEnv:
        env = TaskEnv(self.kernel.original, render_mode)
        if state is None:
            env.adopt(params)
        else:
            env.continue_from(params, state)
        return env

    def summary(self) -> str:
        physics = ", ".join(filter(None, ("physics by mujoco_warp in floats of 32 bits", self._physics.remark)))
        return f"{physics}; {super().summary()}"
