"""The six laws of engines, as checks for your own engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vecenv._batch.batch import Op, Rows
from vecenv.engines import Engine
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.sync import SyncEngine
from vecenv.errors import EnvError
from vecenv.testing._law_env import LawEnv

EngineFactory = Callable[[Sequence[Factory]], Engine]
"""Makes an engine with one env per factory."""

_COUNT = 5
_STEPS = 40


def check_engine(factory: EngineFactory, *, infos: bool = True, failures: bool = True) -> None:
    """Run the six laws (see `vecenv.engines.Engine`) on an engine.

    Args:
        factory: makes the engine from env factories, e.g. `lambda fns: MyEngine(fns, workers=2)`. It is called several
            times; every engine it returns is closed.
        infos: False if the engine's envs are versions of LawEnv without infos.
        failures: False if no env of the engine can raise, as in native code.

    Raises:
        AssertionError: names the law that does not hold.
    """
    for law in (ownership, exactness, completeness, seeds):
        law(factory)
    if failures:
        failure(factory)
    sameness(factory, infos=infos)


def ownership(factory: EngineFactory) -> None:
    """The front owns a row until it is sent: while some rows run, it may write the others, and the engine does not."""
    with _opened(factory) as engine:
        _reset(engine)
        batch, mine, others = engine.batch, np.array([1, 3]), np.array([0, 2, 4])
        before = [column[others].copy() for column in _columns(engine)]
        _write(engine, mine, Op.STEP)
        engine.send(mine)
        batch.actions[0][others] = 2
        engine.recv(len(mine), 10.0)
        _law("ownership", bool((batch.actions[0][others] == 2).all()), "actions of rows not sent were changed")
        same = all(np.array_equal(a, b[others]) for a, b in zip(before, _columns(engine), strict=True))
        _law("ownership", same, "columns of rows not sent were changed")


def exactness(factory: EngineFactory) -> None:
    """`recv(n)` returns n distinct rows that were sent; all of them come ascending; the others are `pending()`."""
    with _opened(factory) as engine:
        _reset(engine)
        _write(engine, np.arange(_COUNT), Op.STEP)
        engine.send(np.arange(_COUNT)[::-1].copy())
        first = engine.recv(2, 10.0)
        left, pending = sorted({*range(_COUNT)}.difference(first.tolist())), engine.pending().tolist()
        _law("exactness", left == pending, f"rows {left} were sent and not received, pending() returned {pending}")
        got = np.concatenate([first, engine.recv(1, 10.0), engine.recv(2, 10.0)])
        _law("exactness", sorted(got.tolist()) == list(range(_COUNT)), f"sent rows 0 to 4, received {got.tolist()}")
        rows = np.array([4, 0, 2])
        _write(engine, rows, Op.STEP)
        engine.send(rows)
        got = engine.recv(3, 10.0)
        _law("exactness", got.tolist() == [0, 2, 4], f"all pending rows must come ascending, received {got.tolist()}")


def completeness(factory: EngineFactory) -> None:
    """On return every column is written, `final_obs` exactly where a ROLL ended an episode, `op` is unchanged."""
    with _opened(factory) as engine:
        _reset(engine)
        batch, everyone = engine.batch, np.arange(_COUNT)
        for step in range(1, _STEPS):
            for column in batch.final_obs:
                column[...] = -1
            batch.reward[...] = np.nan
            _write(engine, everyone, Op.ROLL)
            engine.send(everyone)
            engine.recv(_COUNT, 10.0)
            done = batch.terminated | batch.truncated
            _law("completeness", bool((batch.op == Op.ROLL).all()), f"op is {batch.op} after a recv of ROLLs")
            _law("completeness", bool(np.isfinite(batch.reward).all()), "a reward was not written")
            written = (batch.final_obs[0] != -1).all(axis=1)
            _law("completeness", bool((written == done).all()), f"final_obs {written} where episodes ended {done}")
            _law("completeness", bool((batch.obs[0][done, 2] == 0).all()), f"step {step}: obs of rolled rows not new")
            _law("completeness", bool((batch.final_obs[0][done, 2] > 0).all()), "final_obs is not of the last step")
            _law("completeness", not batch.done.any(), "a ROLL begins the next episode, and `done` says it is over")
        for _ in range(1, _STEPS):
            _write(engine, everyone, Op.STEP)
            batch.op[batch.done] = Op.RESET
            engine.send(everyone)
            engine.recv(_COUNT, 10.0)
            ended = batch.terminated | batch.truncated
            _law("completeness", bool((batch.done == ended).all()), f"done is {batch.done} where STEPs ended {ended}")
            _law("completeness", not batch.done[batch.op == Op.RESET].any(), "an episode is over after its RESET")


def seeds(factory: EngineFactory) -> None:
    """A seed is used by the next RESET, once."""
    with _opened(factory) as engine:
        first = _reset(engine).copy()
        _law("seeds", bool((engine.batch.seed == -1).all()), f"seed is {engine.batch.seed} after a RESET, not -1")
        _write(engine, np.arange(_COUNT), Op.RESET)
        engine.send(np.arange(_COUNT))
        engine.recv(_COUNT, 10.0)
        again = engine.batch.obs[0][:, 3].copy()
        _law("seeds", not np.array_equal(first, again), "a RESET without a seed repeated the seeded episode")
        _law("seeds", np.array_equal(first, _reset(engine)), "the same seeds did not give the same episodes")


def failure(factory: EngineFactory) -> None:
    """An exception leaves `recv` as an EnvError that names the row; the other rows stay pending and can be received."""
    with _opened(factory, failing=2) as engine:
        _reset(engine)
        everyone = np.arange(_COUNT)
        _write(engine, everyone, Op.STEP)
        engine.send(everyone)
        row = None
        try:
            engine.recv(_COUNT, 10.0)
        except EnvError as error:
            row = error.row
        _law("failure", row == 2, f"env 2 raised, recv raised an EnvError for {row}")
        others = engine.recv(_COUNT - 1, 10.0)
        _law("failure", others.tolist() == [0, 1, 3, 4], f"the rows after a failure are {others.tolist()}")
        first = _reset(engine)
        _law("failure", bool(np.isfinite(first).all()), "a RESET after a failure did not work")
    engine.close()  # closing twice is allowed


def sameness(factory: EngineFactory, *, infos: bool = True) -> None:
    """The same ops, seeds and actions give the same bits as the sync engine, in any split of the rows."""
    reference = _trajectory(SyncEngine, lambda step: [np.arange(_COUNT)], infos)
    whole = _trajectory(factory, lambda step: [np.arange(_COUNT)], infos)
    _law("sameness", reference == whole, "a run differs from the sync engine's")
    parts = _trajectory(factory, lambda step: [np.array([0, 3]), np.array([4, 1, 2])], infos)
    _law("sameness", reference == parts, "a run in parts differs from a run of all rows at once")


def _trajectory(factory: EngineFactory, split: Callable[[int], list[Rows]], infos: bool) -> list[bytes]:
    """Every column after every exchange, for a fixed program of ops."""
    generator = np.random.default_rng(0)
    with _opened(factory) as engine:
        _reset(engine)
        seen = [_bytes(engine, infos)]
        for step in range(_STEPS):
            ops = np.where(engine.batch.done, Op.RESET, Op.STEP) if step % 3 else np.full(_COUNT, Op.ROLL)
            actions = generator.integers(0, 3, _COUNT)
            for rows in split(step):
                engine.batch.op[rows] = ops[rows]
                engine.batch.actions[0][rows] = actions[rows]
                engine.send(rows)
            engine.recv(_COUNT, 10.0)
            seen.append(_bytes(engine, infos))
        return seen


def _bytes(engine: Engine, infos: bool) -> bytes:
    mail = (
        []
        if not infos
        else sorted((row, repr(mail.info), repr(mail.final_info)) for row, mail in engine.batch.mail.items())
    )
    engine.batch.mail.clear()
    return b"".join(column.tobytes() for column in _columns(engine)) + repr(mail).encode()


def _columns(engine: Engine) -> list[np.ndarray]:
    batch = engine.batch
    flags = batch.terminated, batch.truncated, batch.done
    return [*batch.obs, batch.reward, *flags, batch.episode_return, batch.episode_length]


def _reset(engine: Engine) -> np.ndarray:
    """Seed and reset all rows; return the random part of their observations."""
    everyone = np.arange(_COUNT)
    engine.batch.seed[everyone] = 10 + everyone
    engine.batch.op[everyone] = Op.RESET
    engine.send(everyone)
    engine.recv(_COUNT, 10.0)
    engine.batch.mail.clear()
    return engine.batch.obs[0][:, 3].copy()


def _write(engine: Engine, rows: Rows, op: Op) -> None:
    engine.batch.actions[0][rows] = 1
    engine.batch.op[rows] = op


class _opened:
    """An engine over LawEnvs that is closed at the end."""

    def __init__(self, factory: EngineFactory, failing: int | None = None) -> None:
        self.engine = factory([_LawEnvFactory(row, row == failing) for row in range(_COUNT)])

    def __enter__(self) -> Engine:
        return self.engine

    def __exit__(self, *exception: object) -> None:
        self.engine.close()


class _LawEnvFactory:
    def __init__(self, index: int, failing: bool) -> None:
        self.index, self.failing = index, failing

    def __call__(self) -> Any:
        return LawEnv(self.index, fail_at=1 if self.failing else None)


def _law(name: str, holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(f"the law of {name} does not hold: {message}")
