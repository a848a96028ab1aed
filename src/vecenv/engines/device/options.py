"""Options of the device engine."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vecenv._batch.layout import Layout
from vecenv.engines import Engine, registry
from vecenv.engines.native.options import NATIVE_CANNOT, SHARED, is_installed, split_kwargs, task_params, time_limit
from vecenv.engines.options import EngineOptions, check_choice
from vecenv.engines.request import Request, Source
from vecenv.errors import ConfigError, MissingExtra
from vecenv.kernel.language.agents import has_agents

if TYPE_CHECKING:
    from vecenv.kernel.backend import Precision
    from vecenv.kernel.language.define import Kernel

_TENSORS_CANNOT = {
    "record": "results stay on the device",
    "batch_size": "all envs are stepped by one launch",
    "check_finite": "it looks at results on the host (torch.isfinite looks at tensors)",
}
"""What cannot be asked for with results that are tensors, and why."""


@dataclass(frozen=True)
class Device(EngineOptions):
    """Kernels and MuJoCo tasks as threads of a GPU, or the same code on the CPU.

    Attributes:
        device: "cpu", "cuda" or "cuda:N", or a torch.device; default: "cpu".
        precision: "exact" (on the CPU bit-equal to Python) or "fast" (floats of 32 bits throughout).
        results: "torch": tensors in the device's memory, actions and results; nothing is copied to the host. "numpy":
            NumPy's arrays, which are copied once to the device and once back where the device has memory of its own.
    """

    device: str | None = None
    precision: Precision = "exact"
    results: Literal["torch", "numpy"] = "torch"

    name: ClassVar[str] = "device"
    where: ClassVar[str] = "on a GPU, or in C++ on the CPU"
    use_for: ClassVar[str] = "kernels and MuJoCo tasks whose observations and actions are torch tensors on that device"
    needs: ClassVar[tuple[str, str] | None] = ("warp", "vecenv[gpu]")
    native: ClassVar[bool] = True
    has_states: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = NATIVE_CANNOT

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if type(self.device).__module__ == "torch":  # torch.device("cuda:0"); torch itself need not be there
            object.__setattr__(self, "device", str(self.device))
        check_choice("results", self.results, ("torch", "numpy"))
        known = isinstance(self.device, str) and re.fullmatch(r"cpu|cuda(:\d+)?", self.device)
        if self.device is not None and not known:
            raise ConfigError(f"device must be 'cpu', 'cuda' or 'cuda:N', got {self.device!r:.40}")

    @property
    def returns_tensors(self) -> bool:  # type: ignore[override]  # other engines declare it for all their objects
        """Whether results are torch tensors."""
        return self.results == "torch"

    def reason(self, source: Source) -> str | None:
        """Why `auto` prefers this engine: a device was asked for."""
        can = source.kernel is not None or source.task is not None
        return f"device={self.device!r} was asked for" if self.device is not None and can else None

    def refuses(self, source: Source, request: Request) -> str | None:
        kernel = source.kernel if source.task is None else source.task_kernel
        if source.task is not None and kernel is None:
            return SHARED if is_installed() else "MuJoCo is not installed; pip install 'vecenv[mujoco]'"
        if kernel is None:
            return "devices run kernels and MuJoCo tasks, and there is none of this env; write one with @vecenv.kernel"
        unfit = super().refuses(source, request)
        if unfit is not None:
            return unfit
        for name, why in _TENSORS_CANNOT.items() if self.returns_tensors else ():
            if request.asks_for(name):
                able = registry.words(other for other in registry.honouring(name) if other != self.name)
                value = f"{getattr(request, name)!r:.60}"
                return (
                    f"the device engine with results='torch' cannot honour {name}={value}: {why}; "
                    f"pass results='numpy', use {able}, or leave {name} out"
                )
        if self.returns_tensors and has_agents(kernel.definition):
            return (
                "the device engine with results='torch' cannot run several agents, whose results are arrays; "
                "pass results='numpy', or use engine='compiled'"
            )
        drawn = split_kwargs(kernel, source.env_kwargs)[1].get("render_mode")
        if drawn is not None:
            able = "mujoco" if source.task is not None else "compiled"
            return (
                f"the device engine cannot honour render_mode={drawn!r:.40}: it draws nothing; use engine={able!r}, "
                "or leave render_mode out"
            )
        return None

    def build(self, source: Source, request: Request) -> Engine:
        if self.returns_tensors and importlib.util.find_spec("torch") is None:
            raise MissingExtra("results of the device engine are torch tensors: pip install torch, or results='numpy'")
        from vecenv.engines.device.memory import bytes_needed, check_room
        from vecenv.engines.native.orders import BUFFERS
        from vecenv.kernel.cpp.host import find_device
        from vecenv.kernel.lower.columns import slots_of

        device = self.device or "cpu"
        found = find_device(device)
        build, kernel, ours, limit = self._engine_of(source)
        spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
        slots = slots_of(kernel, Layout(spaces[0]), Layout(spaces[1]))
        check_room(bytes_needed(slots, request.num_envs, BUFFERS), request.num_envs, found)  # before any is taken
        return build(
            kernel,
            request.num_envs,
            device=device,
            precision=self.precision,
            tensors=self.returns_tensors,
            kwargs=ours,
            max_episode_steps=limit,
        )

    def _engine_of(self, source: Source) -> tuple[Any, Kernel, Any, int | None]:
        """The class of the engine, the kernel for it, its constructor arguments and the limit of steps."""
        if source.task is None:
            assert source.kernel is not None
            from vecenv.engines.device.engine import DeviceEngine

            ours, theirs = split_kwargs(source.kernel, source.env_kwargs)
            return DeviceEngine, source.kernel, ours, time_limit(source.kernel, theirs)
        from vecenv.engines.device.mujoco import DeviceMujocoEngine
        from vecenv.mujoco._device import device_task

        ours, theirs = split_kwargs(source.task_kernel, source.env_kwargs)
        kernel = device_task(source.task_kernel)
        return DeviceMujocoEngine, kernel, task_params(ours), time_limit(source.task_kernel, theirs)
