"""The device engine: rows of a kernel as threads of a device.

There are two ways of keeping columns. *Shared*, on the CPU in exact code: the device works on the columns of the host,
and this is the compiled engine with other native code. *Apart*, everywhere else: columns are in the device's memory
(`memory.py`), and those of the host are copies that are brought up to date when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Mail, Op, Rows
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns
from vecenv.engines.device.memory import DeviceMemory
from vecenv.engines.device.notes import error_noted, raise_noted
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.engines.native.orders import BUFFERS, Ring
from vecenv.errors import ConfigError, KernelFault
from vecenv.kernel.backend import Precision
from vecenv.kernel.cpp.backend import CHUNK, CppCode, load_on_device
from vecenv.kernel.cpp.host import INTERRUPTS, Launcher, raise_if_stopped
from vecenv.kernel.cpp.rows import NO_ROW
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.lower.columns import POLICY, is_final, is_lasting, is_order, is_outcome
from vecenv.kernel.lower.transition import UNFIT


class DeviceEngine(CompiledEngine):
    """State in columns on a device, one launch per exchange.

    Args:
        kernel, count, kwargs, render_mode, max_episode_steps, parameters: as of `CompiledEngine`.
        device: "cpu", "cuda" or "cuda:N".
        precision: "exact" (bit-equal to Python on the CPU) or "fast" (floats of 32 bits throughout).
        tensors: whether results are handed out as tensors: columns are then apart from the host's.

    Attributes:
        columns_apart: the device's memory, None if it is the host's.
        can_be_captured: whether launches may be part of a caller's CUDA graph.
    """

    name = "device"
    can_be_captured = True

    def __init__(
        self,
        kernel: Kernel,
        count: int,
        *,
        device: str = "cpu",
        precision: Precision = "exact",
        tensors: bool = False,
        kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        parameters: Mapping[str, np.ndarray] | None = None,
        threads: int = 1,
        check: bool = False,
    ) -> None:
        self.device, self._tensors = device, tensors
        self._apart = self._is_apart or tensors or device != "cpu" or precision == "fast"
        self.columns_apart: DeviceMemory | None = None
        self._host_is_old = self._host_is_new = self._host_is_seen = False
        super().__init__(
            kernel,
            count,
            kwargs=kwargs,
            precision=precision,
            render_mode=render_mode,
            max_episode_steps=max_episode_steps,
            parameters=parameters,
        )
        if self._apart:
            self._set_apart()

    def _set_apart(self) -> None:
        assert isinstance(self._native, CppCode)
        slots = self._native.slots
        self.columns_apart = DeviceMemory(
            slots,
            self._host_columns,
            self._native.device,
            single=self.precision == "fast",
            layers=BUFFERS,
            limit=self.max_episode_steps,
            poll=INTERRUPTS if self._asks_python else 0,
            given=self._given_memory(),
        )
        self._launcher = self._native.launcher()
        self._chunk = CHUNK if self.device == "cpu" else 1
        self._given = [slot.name for slot in slots if is_order(slot.name)]
        self._finals = [slot.name for slot in slots if is_final(slot.name)]
        self._taken = [slot.name for slot in slots if is_outcome(slot) and not is_final(slot.name)]
        self._lasting_names = [name for name in self.columns_apart.arrays if is_lasting(name)]

    @property
    def _is_apart(self) -> bool:
        """Whether columns are never shared with the host."""
        return False

    @property
    def _asks_python(self) -> bool:
        """Whether loops ask Python whether to stop. On a GPU they cannot, and stop after a number of turns."""
        return self.device == "cpu"

    def _given_memory(self) -> dict[str, Any]:
        """Columns on the device that are memory of the simulation, by name."""
        return {}

    # --- columns of the host -----------------------------------------------------------------------------------------

    @property
    def _columns(self) -> dict[str, np.ndarray]:  # type: ignore[override]  # an attribute there
        """The host's columns, up to date. Whoever asks may write to them: the next launch takes them."""
        if self.columns_apart is not None:
            self.to_host()
            self._host_is_new = True
        return self._host_columns

    @_columns.setter
    def _columns(self, columns: dict[str, np.ndarray]) -> None:
        self._host_columns = columns

    def to_host(self) -> None:
        """Bring the host's columns up to date. It waits for the device, and raises what it has noted."""
        if self.columns_apart is not None and self._host_is_old:
            self.raise_noted()
            self.columns_apart.pull(self._host_columns, self._lasting_names)
            self._host_is_old = False

    def raise_noted(self) -> None:
        """Wait for the device, and raise what threads have noted since the last time, see `notes.raise_noted`."""
        if self.columns_apart is not None:
            raise_noted(self.columns_apart.take_notes(), self.facts.single_action_space)

    def mark_host_old(self) -> None:
        """The device's columns were written to from outside: those of the host are out of date."""
        self._host_is_old = True

    def to_device(self) -> None:
        """Bring the device's columns up to date, if the host may have written to its own."""
        if self.columns_apart is not None and (self._host_is_new or self._host_is_seen):
            self.columns_apart.push(self._host_columns, self._lasting_names)
            self._host_is_new = False

    @property
    def own_fields(self) -> list[str]:
        """Names of the fields that envs consist of."""
        return list(self.kernel.state)

    @property
    def state(self) -> Any:
        return super().state if self.columns_apart is None else _HostState(self)

    def seen(self, name: str) -> np.ndarray:
        """The host's column of a field. It may be written to at any time: from now on every launch takes the host's."""
        self._host_is_seen = True
        return self._columns[f"S_{name}"]

    def set_parameters(self, rows: Rows, columns: Mapping[str, np.ndarray]) -> None:
        self.to_host()  # before the host's parameters are written, which would be lost
        super().set_parameters(rows, columns)

    def states_of(self, rows: Rows) -> dict[str, np.ndarray]:
        self.to_host()
        return super().states_of(rows)

    # --- the seam ----------------------------------------------------------------------------------------------------

    @property
    def checks_actions(self) -> bool:
        return False  # threads do not wait for each other: the front looks at all actions before any row runs

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        if self.columns_apart is None:
            return super().exchange_all(alive, over, rotate)
        if rotate:
            self._rotate(1)
        ended = self._exchange(None, alive, over)
        self._rows_run += self._count
        self.rewards_are_finite = ended < UNFIT
        return ended % UNFIT

    def _run_some(self, rows: Rows) -> None:
        if self.columns_apart is None:
            super()._run_some(rows)
        else:
            self._exchange(np.ascontiguousarray(rows, np.int64), 0, 0)
            self._rows_run += len(rows)

    def _exchange(self, rows: np.ndarray | None, alive: int, over: int) -> int:
        """Copy what the host gives, launch, and copy the results back."""
        memory = self.columns_apart
        assert memory is not None
        if self._tensors:
            self.raise_noted()  # of launches before this one, which did not wait
        self.to_device()
        memory.push(self._host_columns, self._given)
        kept = None if rows is None else _on_device(rows, memory)
        self.launch(alive, over, rows=0 if kept is None else kept.ptr, count=self._count if rows is None else len(rows))
        noted = memory.take_notes()
        memory.pull(self._host_columns, self._taken)
        self._pull_finals(memory)
        if self._host_is_seen:
            self.to_host()  # before anybody writes to the views that were handed out
        self._raise_stopped(noted)
        return noted["ended"]

    def _raise_stopped(self, noted: Mapping[str, int]) -> None:
        """Raise for the row whose loop was stopped; the other rows that were run are finished, and left to `recv`."""
        error = error_noted({"stopped_row": noted["stopped_row"]}, self.facts.single_action_space)
        if not isinstance(error, KernelFault) or error.row is None:
            return
        if not self._pending.count:
            self._pending.open(self._rows)  # it was `exchange_all`
        mail = self.batch.mail.setdefault(error.row, Mail())
        error.phase = "reset" if self.batch.op[error.row] == Op.RESET else "step"
        mail.fault = Fault.of(error, error.phase, error=error)
        self._pending.raise_fault(self.batch, np.array([error.row]))

    def _pull_finals(self, memory: DeviceMemory) -> None:
        """Final observations and infos are written where a ROLL ended an episode, and nowhere else."""
        host = self._host_columns
        rolled = (host["TERMINATED"] | host["TRUNCATED"]) & (host["OP"] == int(Op.ROLL))
        for name in self._finals if rolled.any() else ():
            host[name][rolled] = memory.part(name).numpy().reshape(host[name].shape)[rolled]
            memory.transfers += 1

    def launch(
        self,
        alive: int,
        over: int,
        *,
        rows: int = 0,
        count: int | None = None,
        action: int = 0,
        check: int = 0,
        stream: Any = None,
    ) -> None:
        """Run rows on the device, without waiting for it.

        Args:
            alive, over: ops, as in `exchange_all`.
            rows: address of a list of rows in the device's memory; 0: all.
            count: how many.
            action: address of the actions in the device's memory; 0: they are in their column.
            check: whether rows with actions that are not in their space are left as they are, and noted.
            stream: Warp's.
        """
        memory = self.columns_apart
        assert memory is not None
        stop, chunk = self._count if count is None else count, self._chunk
        words = (memory.table_at, rows, 0, stop, alive, over, 1, check, chunk, memory.notes.ptr, action)
        self._host_is_old = True
        if self._asks_python:
            memory.stopped_row()  # of a launch that a handler of signals has raised after
        self._launch(self._launcher, words, stream)

    def _launch(self, launcher: Launcher, words: tuple[int, ...], stream: Any = None) -> None:
        """Run the rows that these words (`host.WORDS`) say."""
        memory, chunk = self.columns_apart, self._chunk
        assert memory is not None
        launcher(-(-words[3] // chunk), words, stream)
        if self._asks_python:
            raise_if_stopped(memory.stopped_row(), NO_ROW)

    def _rotate(self, by: int) -> None:
        if self.columns_apart is None:
            super()._rotate(by)
            return
        if self._ring is None:
            self._ring = Ring(self.batch.obs, named=self._host_columns)
        self._ring.rotate(by)

    # --- many steps --------------------------------------------------------------------------------------------------

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        memory = self.columns_apart
        if memory is None:
            return super().rollout(actions, steps, alive, over, policy, streams)
        code = self._native if policy is None else self._policies.code_of(policy, lambda: self._columns)
        self.to_device()
        assert isinstance(code, CppCode)
        try:
            table, layers = self._rollout_table(code, steps, alive, actions, streams)
        except (RuntimeError, MemoryError) as error:
            raise ConfigError(
                f"{steps} steps of {self._count} envs do not fit the memory of {self.device}; roll out fewer steps at "
                f"a time ({error})"
            ) from None
        launcher = self._launcher if policy is None else code.launcher()
        words = (table.ptr, 0, 0, self._count, alive, over, steps, 0, self._chunk)
        self._launch(launcher, (*words, memory.notes.ptr, 0))
        noted = memory.take_notes()
        if streams is not None:
            streams[...] = layers.pop(POLICY).numpy().reshape(streams.shape)
        shapes = {slot.name: (steps, self._count, *(slot.shape or ())) for slot in code.slots}
        out = {
            name: np.array(array.numpy().reshape(shapes[name]), self._host_columns[name].dtype)
            for name, array in layers.items()
        }
        self._host_is_old = True
        if noted["wrong_row"] != NO_ROW:
            self._refuse(out, noted["wrong_step"])
        error = error_noted({"stopped_row": noted["stopped_row"]}, self.facts.single_action_space)
        if error is not None:
            raise error
        self._rows_run += self._count * steps
        self.to_host()
        for name, column in out.items():
            if not name.startswith("F"):
                self._host_columns[name][...] = column[-1]
        self._host_is_new = True
        return out

    def _rollout_table(
        self, code: CppCode, steps: int, alive: int, actions: Columns | None, streams: np.ndarray | None
    ) -> tuple[Any, dict[str, Any]]:
        """The table of a rollout, and its columns [steps, rows, ...] on the device."""
        memory = self.columns_apart
        assert memory is not None
        own = DeviceMemory.__new__(DeviceMemory)
        own.__dict__.update(memory.__dict__, slots=code.slots, arrays=dict(memory.arrays))
        timed = [slot for slot in code.slots if slot.timed and not (is_final(slot.name) and alive != int(Op.ROLL))]
        memory.check_rollout(memory.row_bytes(timed) * self._count, steps)
        layers: dict[str, Any] = {}
        for slot in timed:
            assert slot.shape is not None
            layers[slot.name] = memory.layered((steps, self._count, *slot.shape), slot.dtype)
            if slot.name.startswith("A_") and actions is not None:
                given = actions[int(slot.name[2:])]
                layers[slot.name].assign(np.ascontiguousarray(given, memory.dtype(given.dtype)).reshape(steps, -1))
        if streams is not None:
            layers[POLICY] = own.arrays[POLICY] = _on_device(streams, memory)
        words = own.table(memory.layer, self.max_episode_steps, self._host_columns, memory.layer)
        for number, slot in enumerate(code.slots):
            if slot.name in layers and slot.name != POLICY:
                array = layers[slot.name]
                words[2 * number : 2 * number + 2] = array.ptr, array.strides[0]
        return _on_device(words, memory), layers

    # --- how ---------------------------------------------------------------------------------------------------------

    def factory(self) -> Callable[[], DeviceEngine]:
        build: Any = super().factory()
        kept = {name: value for name, value in build.keywords.items() if name not in ("check", "threads")}
        return type(build)(build.func, *build.args, **kept, device=self.device, tensors=self._tensors)

    def summary(self) -> str:
        """Where the rows run, and what NumPy's arrays cost."""
        if self.columns_apart is None:
            return "C++ on the CPU, in the memory of NumPy's arrays"
        if self._tensors:
            return f"C++ on {self.device}, whose memory the tensors are"
        return f"C++ on {self.device}; NumPy's arrays are copied once to the device and once back in each step"

    def _compile(self, policy: Callable[..., Any] | None = None) -> CppCode:
        layouts = self.facts.observation_layout, self.facts.action_layout
        shapes = {name: column.shape[1:] for name, column in self.parameters.items() if column.ndim > 1}
        return load_on_device(self.device, self.kernel, *layouts, self.precision, policy, self._try_out, shapes)


class _HostState:
    """The fields of all rows by name, as the host's columns, which are brought up to date when one is asked for."""

    def __init__(self, engine: DeviceEngine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in self._engine.own_fields:
            raise AttributeError(f"{self._engine.kernel.id} has no field {name!r}")
        return self._engine.seen(name)


def _on_device(values: np.ndarray, memory: DeviceMemory) -> Any:
    array = memory.empty(values.shape, values.dtype)
    array.assign(np.ascontiguousarray(values, memory.dtype(values.dtype)).ravel())
    return array
