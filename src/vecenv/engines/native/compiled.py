"""The compiled engine: rows of a kernel, run by native code."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from vecenv._batch.batch import Batch, Op, Rows
from vecenv._batch.clocks import Clocks
from vecenv._batch.faults import Fault
from vecenv._batch.layout import Columns
from vecenv._batch.seeding import NO_SEED
from vecenv.engines import registry
from vecenv.engines.facts import BatchFacts
from vecenv.engines.native.calls import WrongAction, or_interrupt, or_raise, task_of
from vecenv.engines.native.faults import Faults
from vecenv.engines.native.orders import Ring, WholeOrders
from vecenv.engines.native.parameters import own_columns, parameter_columns
from vecenv.engines.native.policies import Policies
from vecenv.engines.native.threads import NativeThreads, ThreadTuner
from vecenv.engines.pending import PendingRows
from vecenv.errors import ConfigError, InvalidAction, SpaceError, UnsupportedError
from vecenv.kernel.backend import NativeCode, Precision, load_kernel
from vecenv.kernel.language.declared import check_bounds, per_env
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.params import common_value, not_for_an_episode, one_copy
from vecenv.kernel.language.python import KernelEnv, check_render_mode, metadata_of, option_columns
from vecenv.kernel.language.snapshot import generator, kernel_trials, snapshot, try_out
from vecenv.kernel.lower.columns import (
    INTERRUPTED,
    POLICY,
    RNG_WORDS,
    column_words,
    fill_table,
    interrupted,
    is_lasting,
    table_size,
)
from vecenv.kernel.lower.transition import FRESH, STALE, UNFIT

_ROLL = int(Op.ROLL)
_clock = time.perf_counter_ns


class CompiledEngine:
    """State in columns, one native call per exchange.

    Args:
        kernel: what the rows are.
        count: number of rows.
        kwargs: parameters, one mapping for all rows or one per row.
        precision: "exact" (bit-equal to Python) or "fast" (within the tolerances of `kernel/numba/math.py`).
        threads: maximum number; whether several are faster than one is measured.
        render_mode: as for a Gymnasium env.
        max_episode_steps: time limit, None for none.
        check: whether native code checks what Python would raise for; a row that fails raises a KernelFault.
        parameters: instead of kwargs, a column of each, as in the attribute of that name.

    Attributes:
        parameters: a column of each parameter; that of a shared one has one row and is read-only.
        rewards_are_finite: of the last `exchange_all`, see `SupportsExchange`.
    """

    name = "compiled"
    checks_actions = True

    def __init__(
        self,
        kernel: Kernel,
        count: int,
        *,
        kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        precision: Precision = "exact",
        threads: int = 1,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        check: bool = False,
        parameters: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        assert kernel.names_checked
        self.kernel = kernel
        metadata = self._metadata(render_mode)
        self.precision: Precision = precision
        self.check = check
        self.threads = threads
        self.max_episode_steps = max_episode_steps
        self.parameters = (
            own_columns(kernel, parameters)
            if parameters is not None
            else parameter_columns(kernel, kwargs or {}, count)
        )
        observation, action = kernel.spaces(kernel.record(self.parameters))
        self._check_same_spaces(self.parameters)
        self.facts = BatchFacts.of(observation, action, count, metadata, render_mode)
        self.batch = Batch.allocate(self.facts.observation_layout, self.facts.action_layout, count)
        self._count = count
        self._rows: Rows = np.arange(count)
        self._shared_columns = frozenset(f"P_{name}" for name in kernel.shared_params)
        self._pending = PendingRows(count)
        self._trials = kernel_trials(kernel, self._snapshot)
        self._trials.run(self.parameters)
        self._native = self._compile()
        self._faults = Faults(kernel, self.batch) if check else None
        self._columns = self._allocate(count)
        self._of_episodes = {
            name: column
            for name, column in self._columns.items()
            if name in ("RNG", "ELAPSED") or name.startswith(("S_", "P_"))
            if name not in self._shared_columns
        }
        self._tables = self._make_tables(self._native, self._columns)
        self._whole = WholeOrders(self._tables[0], count)
        self._calls = [self._native.caller() for _ in range(threads)]
        self._call = self._calls[0]
        self._native_threads = NativeThreads(threads)
        self._tuner = ThreadTuner(threads > 1 and count >= 2 * self._native.block)
        self._policies = Policies(kernel, self._compile, None if check else self._snapshot)
        self._ring: Ring | None = None
        self._busy = 0
        self._rows_run = 0
        self.rewards_are_finite = True

    # --- the seam ----------------------------------------------------------------------------------------------------

    def send(self, rows: Rows) -> None:
        if self.batch.options:
            self._take_options(rows)
        self._pending.finished[rows] = False  # `exchange_all` sets it for rows that were not sent
        self._pending.open(rows)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        rows = self._pending.oldest(count)
        todo = np.sort(rows[~self._pending.finished[rows]])  # an interrupted call may have run some of them
        if len(todo) == self._count and self._faults is None:
            self.exchange_all(0, 0, rotate=False)
        elif len(todo):
            self._run_some(todo)
        if self._faults is not None:
            if self._faults.found():
                self._faults.to_mail(self._native.sites)
            self._pending.raise_fault(self.batch, rows)
        self._pending.give_back(rows)
        return rows

    def pending(self) -> Rows:
        self._native_threads.join()  # the front asks after an interrupt
        return self._pending.rows()

    def close(self, timeout: float = 5.0) -> None:
        self._native_threads.close()

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Run every row at once; `rotate` lets observations go to the next buffers of the ring."""
        if rotate:
            self._rotate(1)
        whole = self._whole
        if alive != whole.alive or over != whole.over:
            whole.write(alive, over)
        tuner, started = self._tuner, _clock()
        ended = self._together_checked() if tuner.together else self._call(whole.address)
        took = _clock() - started
        self._busy += took
        self._rows_run += self._count
        if tuner.trying:
            tuner.note(took * 1e-9)
        if 0 <= ended < UNFIT and self._faults is None:
            self.rewards_are_finite = True
            return ended
        return self._looked_at(ended, rotate)

    def _looked_at(self, ended: int, rotate: bool) -> int:
        """What `exchange_all` returns or raises if native code reports more than ends of episodes."""
        self.rewards_are_finite = ended < UNFIT
        if not self.rewards_are_finite:
            ended %= UNFIT
        if ended == INTERRUPTED:
            raise interrupted()
        if ended < 0 and rotate:
            self._rotate(-1)  # nothing was run: the observations of before are the current ones
        if self._faults is not None and self._faults.found():
            self._pending.open(self._rows)  # all are finished; those that did not fail are left to `recv`
            self._faults.to_mail(self._native.sites)
            self._pending.raise_fault(self.batch, self._rows)
        return ended

    def clocks(self) -> list[tuple[slice, Clocks]]:
        return [(slice(0, self._count), Clocks.together(self._count, self._busy, self._rows_run))]

    @property
    def memory(self) -> int:
        """Bytes of all columns."""
        columns = {id(column): column.nbytes for column in self._columns.values()}
        return sum(columns.values())

    # --- what kernels can do beyond ----------------------------------------------------------------------------------

    def factory(self) -> Callable[[], CompiledEngine]:
        return functools.partial(
            type(self),
            self.kernel,
            self._count,
            parameters=self.parameters,
            precision=self.precision,
            check=self.check,
            threads=self.threads,
            render_mode=self.facts.render_mode,
            max_episode_steps=self.max_episode_steps,
        )

    @property
    def state(self) -> SimpleNamespace:
        own = [name for name in self.kernel.state if name not in self.kernel.shared]
        return SimpleNamespace(**{name: self._columns[f"S_{name}"] for name in own})

    def get_rows(self, rows: Rows) -> dict[str, np.ndarray]:
        shared = self._shared_columns
        return {name: column if name in shared else column[rows] for name, column in self._lasting().items()}

    def just_begun(self, rows: Rows) -> Rows:
        elapsed = self._columns["ELAPSED"]
        return (elapsed == 0).nonzero()[0] if len(rows) == self._count else rows[elapsed[rows] == 0]

    def states_of(self, rows: Rows) -> dict[str, np.ndarray]:
        columns = {name: column[rows] for name, column in self._of_episodes.items()}
        for name in self._shared_columns:
            column = self._columns[name]
            columns[name] = np.broadcast_to(column[0], (len(rows), *column.shape[1:]))
        return columns

    def set_rows(self, rows: Rows, columns: Mapping[str, np.ndarray]) -> None:
        own = self._lasting()
        shared = self._shared_columns
        copies = {  # copied first: another thread may change the originals
            name: columns[name] if name in shared and columns[name] is own[name] else np.array(columns[name])
            for name in own
            if name in columns
        }
        for name, column in own.items():
            given = copies.get(name)
            fits = given is not None and given.dtype == column.dtype and given.shape[1:] == column.shape[1:]
            lengths = (1,) if name in shared else (1, len(rows))
            if given is None or not fits or given.ndim < 1 or len(given) not in lengths:
                what = column_words(name)
                raise SpaceError(
                    f"this state is not one of {self.kernel.id} with these parameters ({what} does not fit)"
                )
        self.check_state(copies)
        changed = [name for name in shared if not _same_bytes(copies[name], own[name])]
        if changed and len(rows) < self._count:
            raise SpaceError(
                f"this state is of envs with other {changed[0][2:]}, which all envs share; set it for all envs at once"
            )
        for name, column in own.items():
            if name in changed:
                self._share(name[2:], one_copy(copies[name]))
            elif name not in shared:
                column[rows] = copies[name]

    def check_state(self, columns: Mapping[str, np.ndarray]) -> None:
        """Check the parameters in columns of a state: those of its episodes, and those of the episodes after them.

        Raises:
            ConfigError: one is not within its bounds.
            KernelError: Python raises with these parameters. It names the line.
            SpaceError: one cannot be changed.
        """
        for prefix in ("P", "B"):
            given = {name: columns.get(f"{prefix}_{name}", self.parameters[name]) for name in self.kernel.params}
            for name, column in given.items():
                check_bounds(self.kernel.params[name], column)
                own = self.parameters[name]
                if name in self.kernel.fixed and not np.isin(column, own.astype(column.dtype)).all():
                    raise SpaceError(f"this state is of envs with another {name}, which cannot be changed")
            varying = [name for name in given if name not in self.kernel.shared_params]
            count = max((len(given[name]) for name in varying), default=1)
            rows = {name: np.broadcast_to(given[name], (count, *given[name].shape[1:])) for name in varying}
            kept = [name for name in self.kernel.shared_params if given[name] is self.parameters[name]]
            self._try_parameters({**given, **rows}, kept)

    def with_streams(self, columns: Mapping[str, np.ndarray], words: np.ndarray) -> dict[str, np.ndarray]:
        return {**columns, "RNG": words}

    def rollout(
        self,
        actions: Columns | None,
        steps: int,
        alive: int,
        over: int,
        policy: Callable[..., Any] | None,
        streams: np.ndarray | None = None,
    ) -> dict[str, np.ndarray]:
        """Run all rows `steps` times in one native call."""
        code = self._native if policy is None else self._policies.code_of(policy, lambda: self._columns)
        present, count = self._present(), len(self._rows)
        out: dict[str, np.ndarray] = {}
        if code is self._native:
            tables = [table.copy() for table in self._tables]
        else:
            columns = present if streams is None else {**present, POLICY: streams}
            tables = [table.copy() for table in self._make_tables(code, columns)]
        for number, slot in enumerate(code.slots):
            if not slot.timed or (slot.name.startswith("F") and alive != _ROLL):
                continue
            assert slot.shape is not None
            if slot.name.startswith("A_") and actions is not None:
                layers = actions[int(slot.name[2:])]
            else:
                layers = np.empty((steps, count, *slot.shape), slot.dtype)
            out[slot.name] = layers
            for table in tables:
                table[2 * number : 2 * number + 2] = layers.ctypes.data, layers.strides[0]
        calls = [code.caller() for _ in range(self.threads)] if policy is not None else self._calls
        orders = np.array([tables[0].ctypes.data, 0, 0, count, alive, over, steps, 0], np.int64)
        started = _clock()
        calls = [or_raise(call) for call in calls]
        try:
            if self.threads > 1 and count >= 2 * self._native.block:
                self._together(calls, orders, tables)
            else:
                calls[0](orders.ctypes.data)
        except WrongAction as error:
            self._raise_faults(code)
            self._refuse(out, error.step)
        self._busy += _clock() - started
        self._rows_run += count * steps
        for name, layers in out.items():
            if not name.startswith("F"):
                present[name][...] = layers[-1]
        self._raise_faults(code)
        return out

    def _raise_faults(self, code: NativeCode) -> None:
        """Raise what checks found in a rollout."""
        if self._faults is not None and self._faults.found():
            raise self._faults.of_rollout(code.sites)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], timeout: float | None = None) -> list[Any]:
        """Reads and calls go to Python envs that are copies of the rows; what a call changes is not written back."""
        if name in self.kernel.shared_params:
            return [self.parameters[name][0]] * self._count  # it is read-only
        if name in self.kernel.params:
            return [_plain(value) for value in self.parameters[name]]
        results = []
        for row in self._rows.tolist():
            env = self.copy_of(row)
            try:
                found = getattr(env, name)
                results.append(found(*args, **kwargs) if callable(found) else found)
            except Exception as error:
                raise Fault.of(error, "call").to_error(row) from error
        return results

    def draw(self, rows: Rows) -> list[Any]:
        """A frame of each of these rows, by the kernel's `render`."""
        return [self.copy_of(row).render() for row in rows.tolist()]

    def set_attr(self, name: str, values: list[Any], timeout: float | None = None) -> None:
        """Set a parameter, from the next episode of each env on; a shared one at once."""
        if name not in self.kernel.params:
            known = ", ".join(self.kernel.own_params) or "none"
            raise UnsupportedError(
                f"{self.kernel.id} has no parameter {name!r} (there are: {known}); the state of compiled envs is "
                f"written through envs.state, other attributes need {registry.words(registry.python_engines())}"
            )
        if name in self.kernel.shared_params:
            self._set_shared(name, common_value(name, values))
        else:
            self.set_parameters(self._rows, {name: np.array(values)})

    def _set_shared(self, name: str, value: Any) -> None:
        self.kernel.check_settable(name)
        column = per_env(self.kernel.params[name], value, self._count)
        self._check_shape(name, column)
        self._check_same_spaces({**self.parameters, name: column})
        self._try_parameters({**self.parameters, name: column})
        self._share(name, column)

    def _share(self, name: str, column: np.ndarray) -> None:
        """Let all envs have this value of a shared parameter: a read-only column of one row."""
        slot = f"P_{name}"
        number = next(number for number, one in enumerate(self._native.slots) if one.name == slot)
        for table in self._tables:
            table[2 * number] = column.ctypes.data
        self.parameters[name] = self._columns[slot] = column

    def set_parameters(self, rows: Rows, columns: Mapping[str, np.ndarray]) -> None:
        """Set parameters of these rows, from their next episode on. After a ConfigError nothing has changed."""
        made = self.check_parameters(rows, columns)
        for name, column in made.items():
            self.parameters[name][rows] = column
        self._columns["OVERRIDE"][rows] = STALE

    def check_parameters(self, rows: Rows, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Columns as `set_parameters` would set them; raises what it would raise."""
        for name in columns:
            self.kernel.check_settable(name)
            if name in self.kernel.shared_params:
                raise not_for_an_episode(name)
        made = {name: per_env(self.kernel.params[name], column, len(rows)) for name, column in columns.items()}
        for name, column in made.items():
            self._check_shape(name, column)
        shared = self.kernel.shared_params
        general = {name: column if name in shared else column[rows] for name, column in self.parameters.items()}
        self._check_same_spaces({**general, **made})
        self._try_parameters({**general, **made})
        return made

    def _check_shape(self, name: str, column: np.ndarray) -> None:
        wanted, shape = self.parameters[name].shape[1:], column.shape[1:]
        if shape != wanted:
            raise ConfigError(f"parameter {name!r} must have shape {wanted}, got {shape}")

    def copy_of(self, row: int) -> KernelEnv:
        """A Python env that is a copy of a row: its state, parameters and stream."""
        env = self._snapshot(*self._parts_of(row), self.facts.render_mode)
        words, seed = self._columns["RNG"][row], int(self.batch.last_seed[row])
        fallback = int(self._columns["FALLBACK"][row])  # the seed of a stream that was given none
        env.np_random = generator(words) if words.any() else np.random.default_rng(fallback)
        env._np_random_seed = fallback if seed == NO_SEED else seed
        return env

    def _parts_of(self, row: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Parameters and state of a row."""
        own = [name for name in self.kernel.state if name not in self.kernel.shared]
        return (
            self.kernel.row_of({name: self._columns[f"P_{name}"] for name in self.kernel.params}, row),
            {name: self._columns[f"S_{name}"][row] for name in own},
        )

    def _snapshot(
        self,
        params: Mapping[str, np.ndarray],
        state: Mapping[str, np.ndarray] | None = None,
        render_mode: str | None = None,
    ) -> KernelEnv:
        """A Python env with these parameters (columns of one row) and this state."""
        return snapshot(self.kernel, params, state, render_mode)

    def _check_same_spaces(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Refuse parameters that give some env other spaces: all rows share columns of one shape."""
        definition = self.kernel.definition
        if not (callable(definition.observation_space) or callable(definition.action_space)):  # type: ignore[attr-defined]
            return
        shared = self.kernel.shared_params
        bytes_of = [_bytes_of(column) for name, column in parameters.items() if name not in shared]
        different = np.zeros(1, np.int64)
        if bytes_of:
            _, different = np.unique(np.concatenate(bytes_of, axis=1), axis=0, return_index=True)
        wanted = self.kernel.spaces(self.kernel.record(self.parameters))
        for row in different.tolist():
            if self.kernel.spaces(self.kernel.record(parameters, row)) != wanted:
                raise ConfigError(f"parameters of env {row} give it other spaces than those of env 0")

    def _refuse(self, out: Mapping[str, np.ndarray], step: int) -> None:
        """Raise for what a policy chose at a step."""
        layout = self.facts.action_layout
        chosen = [out[f"A_{leaf}"][step] for leaf in range(len(layout.leaves))]
        try:
            layout.pack(layout.batched(chosen), self._count)
        except InvalidAction as error:
            raise InvalidAction(f"the policy, at step {step} of the rollout: {error}; reset the envs") from None
        raise InvalidAction(f"the policy chose an action that is not in the space at step {step}; reset the envs")

    # --- how ---------------------------------------------------------------------------------------------------------

    def _metadata(self, render_mode: str | None) -> dict[str, Any]:
        """The metadata of the envs; raises ConfigError if they cannot be drawn so."""
        check_render_mode(self.kernel, render_mode)
        return metadata_of(self.kernel)

    def _compile(self, policy: Callable[..., Any] | None = None) -> NativeCode:
        layouts = self.facts.observation_layout, self.facts.action_layout
        shapes = {name: column.shape[1:] for name, column in self.parameters.items() if column.ndim > 1}
        return load_kernel(self.kernel, *layouts, self.precision, policy, self._try_out, shapes, self.check)

    def _try_parameters(self, parameters: Mapping[str, np.ndarray], tried: Collection[str] = ()) -> None:
        """Try out parameters before rows get them, see `Trials.run`."""
        self._trials.run(parameters, tried)
        self._policies.parameters_changed()

    def _try_out(self) -> None:
        """Play env 0 in Python for a moment: it finds indices that are out of range, native code does not look."""
        try_out(self._snapshot({name: column[:1] for name, column in self.parameters.items()}))

    def _allocate(self, count: int) -> dict[str, np.ndarray]:
        batch = self.batch
        columns: dict[str, np.ndarray] = {
            "OP": batch.op,
            "SEED": batch.seed,
            "LAST_SEED": batch.last_seed,
            "FALLBACK": (np.random.SeedSequence().generate_state(count, np.uint64) >> np.uint64(1)).view(np.int64),
            "RNG": np.zeros((count, RNG_WORDS), np.uint64),
            "REWARD": batch.reward,
            "TERMINATED": batch.terminated,
            "TRUNCATED": batch.truncated,
            "DONE": batch.done,
            "FINISHED": self._pending.finished,
            "RETURN": batch.episode_return,
            "LENGTH": batch.episode_length,
        }
        if self._faults is not None:
            columns["FAULT"] = self._faults.column
        columns |= {f"A_{number}": column for number, column in enumerate(batch.actions)}
        columns |= {f"O_{number}": column for number, column in enumerate(batch.obs)}
        columns |= {f"C_{number}": column for number, column in enumerate(batch.obs)}
        columns |= {f"F_{number}": column for number, column in enumerate(batch.final_obs)}
        shared = self.kernel.shared_params
        columns |= {f"B_{name}": column for name, column in self.parameters.items() if name not in shared}
        columns |= {
            f"P_{name}": column if name in shared else column.copy() for name, column in self.parameters.items()
        }
        for slot in self._native.slots:
            if slot.name not in columns and not slot.shared:
                assert slot.shape is not None
                columns[slot.name] = np.zeros((count, *slot.shape), slot.dtype)
        names = [*self.kernel.info, *(["action_mask"] if "action_mask" in self.kernel.methods else [])]
        for ours, theirs in (("O", batch.info), ("F", batch.final_info)):
            for name in names:
                slot = f"{ours}M" if name == "action_mask" else f"{ours}I_{name}"
                theirs[name] = columns[slot]
        return columns

    def _lasting(self) -> dict[str, np.ndarray]:
        """The columns that a row is made of; the others are scratch or orders."""
        return {name: column for name, column in self._present().items() if is_lasting(name)}

    def _present(self) -> dict[str, np.ndarray]:
        """All columns, with the buffers that observations are in now."""
        numbered = list(enumerate(self.batch.obs))
        return {**self._columns, **{f"{kind}_{leaf}": column for leaf, column in numbered for kind in "OC"}}

    def _make_tables(self, code: NativeCode, columns: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The table of every thread; code with checks has one column more than code without."""
        table = np.zeros(table_size(code.slots), np.int64)
        fill_table(table, code.slots, columns, self.max_episode_steps)
        return [table] * self.threads

    def _together_checked(self) -> int:
        """Run all rows on all threads, if all actions are in their space: no thread looks at those of another."""
        orders = self._whole.words
        if orders[7]:
            looking = orders.copy()
            looking[6] = 0  # steps
            if self._calls[0](looking.ctypes.data) < 0:
                return -1
        return self._together(self._calls, orders, self._tables)

    def _together(self, calls: list[Callable[[int], int]], orders: np.ndarray, tables: list[np.ndarray]) -> int:
        """Run the range of `orders` on all threads."""
        tasks = [task_of(or_interrupt(call), orders, table) for call, table in zip(calls, tables, strict=True)]
        return self._native_threads.run(tasks, int(orders[3]), self._native.block)

    def _run_some(self, rows: Rows) -> None:
        orders = np.array([self._tables[0].ctypes.data, rows.ctypes.data, 0, len(rows), 0, 0, 1, 0], np.int64)
        started = _clock()
        or_interrupt(self._calls[0])(orders.ctypes.data)
        self._busy += _clock() - started
        self._rows_run += len(rows)

    def _rotate(self, by: int) -> None:
        """Let observations go to other buffers."""
        if self._ring is None:
            names = [slot.name for slot in self._native.slots]
            places = [2 * names.index(f"O_{leaf}") for leaf in range(len(self.batch.obs))]
            tables = {id(table): table for table in self._tables}
            self._ring = Ring(self.batch.obs, places, list(tables.values()))
        self._ring.rotate(by)

    def _take_options(self, rows: Iterable[int]) -> None:
        """Parameters that reset options give to the episodes that begin. If one is refused, nothing has changed."""
        taken = []
        for row in rows:
            options = self.batch.options.pop(int(row), None)
            general = self.kernel.row_of(self.parameters, int(row))
            given = option_columns(self.kernel, self.parameters, options)
            if given:
                self._check_same_spaces({**general, **given})
            taken.append((row, {**general, **given}, bool(given)))
        changed = [columns for _, columns, overrides in taken if overrides]
        shared = self.kernel.shared_params
        if changed:
            own = [name for name in changed[0] if name not in shared]
            together = {name: np.concatenate([columns[name] for columns in changed]) for name in own}
            self._try_parameters({**changed[0], **together})
        for row, columns, overrides in taken:
            if overrides:
                self._columns["OVERRIDE"][row] = FRESH
            for name, column in columns.items():
                if name not in shared:
                    self._columns[f"P_{name}"][row] = column[0]


def _bytes_of(column: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)


def _same_bytes(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or one.tobytes() == other.tobytes()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value.copy()
