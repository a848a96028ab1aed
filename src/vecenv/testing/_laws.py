"""The six laws of engines, as checks for your own engine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

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
_EVERYONE = np.arange(_COUNT)
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
    for check in (ownership, exactness, completeness, seeds):
        check(factory)
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
        law("ownership", bool((batch.actions[0][others] == 2).all()), "actions of rows not sent were changed")
        same = all(np.array_equal(a, b[others]) for a, b in zip(before, _columns(engine), strict=True))
        law("ownership", same, "columns of rows not sent were changed")


def exactness(factory: EngineFactory) -> None:
    """`recv(n)` returns n distinct rows that were sent; all of them come ascending; the others are `pending()`."""
    with _opened(factory) as engine:
        _reset(engine)
        _write(engine, _EVERYONE, Op.STEP)
        engine.send(_EVERYONE[::-1].copy())
        first = engine.recv(2, 10.0)
        left, pending = sorted({*range(_COUNT)}.difference(first.tolist())), engine.pending().tolist()
        law("exactness", left == pending, f"rows {left} were sent and not received, pending() returned {pending}")
        got = np.concatenate([first, engine.recv(1, 10.0), engine.recv(2, 10.0)])
        law("exactness", sorted(got.tolist()) == list(range(_COUNT)), f"sent rows 0 to 4, received {got.tolist()}")
        rows = np.array([4, 0, 2])
        _write(engine, rows, Op.STEP)
        engine.send(rows)
        got = engine.recv(3, 10.0)
        law("exactness", got.tolist() == [0, 2, 4], f"all pending rows must come ascending, received {got.tolist()}")


def completeness(factory: EngineFactory) -> None:
    """On return every column is written, `final_obs` exactly where a ROLL ended an episode, `op` is unchanged."""
    with _opened(factory) as engine:
        _reset(engine)
        batch = engine.batch
        for step in range(1, _STEPS):
            for column in batch.final_obs:
                column[...] = -1
            batch.reward[...] = np.nan
            _exchange(engine, Op.ROLL)
            done = batch.terminated | batch.truncated
            law("completeness", bool((batch.op == Op.ROLL).all()), f"op is {batch.op} after a recv of ROLLs")
            law("completeness", bool(np.isfinite(batch.reward).all()), "a reward was not written")
            written = (batch.final_obs[0] != -1).all(axis=1)
            law("completeness", bool((written == done).all()), f"final_obs {written} where episodes ended {done}")
            law("completeness", bool((batch.obs[0][done, 2] == 0).all()), f"step {step}: obs of rolled rows not new")
            law("completeness", bool((batch.final_obs[0][done, 2] > 0).all()), "final_obs is not of the last step")
            law("completeness", not batch.done.any(), "a ROLL begins the next episode, and `done` says it is over")
        for _ in range(1, _STEPS):
            _write(engine, _EVERYONE, Op.STEP)
            batch.op[batch.done] = Op.RESET
            engine.send(_EVERYONE)
            engine.recv(_COUNT, 10.0)
            ended = batch.terminated | batch.truncated
            law("completeness", bool((batch.done == ended).all()), f"done is {batch.done} where STEPs ended {ended}")
            law("completeness", not batch.done[batch.op == Op.RESET].any(), "an episode is over after its RESET")


def seeds(factory: EngineFactory) -> None:
    """A seed is used by the next RESET, once."""
    with _opened(factory) as engine:
        first = _reset(engine).copy()
        law("seeds", bool((engine.batch.seed == -1).all()), f"seed is {engine.batch.seed} after a RESET, not -1")
        _exchange(engine, Op.RESET)
        again = engine.batch.obs[0][:, 3].copy()
        law("seeds", not np.array_equal(first, again), "a RESET without a seed repeated the seeded episode")
        law("seeds", np.array_equal(first, _reset(engine)), "the same seeds did not give the same episodes")


def failure(factory: EngineFactory) -> None:
    """An exception leaves `recv` as an EnvError that names the row; the other rows stay pending and can be received."""
    with _opened(factory, failing=2) as engine:
        _reset(engine)
        row = None
        try:
            _exchange(engine, Op.STEP)
        except EnvError as error:
            row = error.row
        law("failure", row == 2, f"env 2 raised, recv raised an EnvError for {row}")
        others = engine.recv(_COUNT - 1, 10.0)
        law("failure", others.tolist() == [0, 1, 3, 4], f"the rows after a failure are {others.tolist()}")
        first = _reset(engine)
        law("failure", bool(np.isfinite(first).all()), "a RESET after a failure did not work")
    engine.close()  # closing twice is allowed


def sameness(factory: EngineFactory, *, infos: bool = True) -> None:
    """The same ops, seeds and actions give the same bits as the sync engine, in any split of the rows."""
    reference = _trajectory(SyncEngine, [_EVERYONE], infos)
    whole = _trajectory(factory, [_EVERYONE], infos)
    law("sameness", reference == whole, "a run differs from the sync engine's")
    parts = _trajectory(factory, [np.array([0, 3]), np.array([4, 1, 2])], infos)
    law("sameness", reference == parts, "a run in parts differs from a run of all rows at once")


def _trajectory(factory: EngineFactory, parts: list[Rows], infos: bool) -> list[bytes]:
    """Every column after every exchange, for a fixed program of ops."""
    generator = np.random.default_rng(0)
    with _opened(factory) as engine:
        _reset(engine)
        seen = [_bytes(engine, infos)]
        for step in range(_STEPS):
            ops = np.where(engine.batch.done, Op.RESET, Op.STEP) if step % 3 else np.full(_COUNT, Op.ROLL)
            actions = generator.integers(0, 3, _COUNT)
            for rows in parts:
                engine.batch.op[rows] = ops[rows]
                engine.batch.actions[0][rows] = actions[rows]
                engine.send(rows)
            engine.recv(_COUNT, 10.0)
            seen.append(_bytes(engine, infos))
        return seen


def _bytes(engine: Engine, infos: bool) -> bytes:
    mails = engine.batch.mail.items() if infos else ()
    mail = sorted((row, repr(mail.info), repr(mail.final_info)) for row, mail in mails)
    engine.batch.mail.clear()
    return b"".join(column.tobytes() for column in _columns(engine)) + repr(mail).encode()


def _columns(engine: Engine) -> list[np.ndarray]:
    batch = engine.batch
    flags = batch.terminated, batch.truncated, batch.done
    return [*batch.obs, batch.reward, *flags, batch.episode_return, batch.episode_length]


def _reset(engine: Engine) -> np.ndarray:
    """Seed and reset all rows; return the random part of their observations."""
    engine.batch.seed[:] = 10 + _EVERYONE
    _exchange(engine, Op.RESET)
    engine.batch.mail.clear()
    return engine.batch.obs[0][:, 3].copy()


def _write(engine: Engine, rows: Rows, op: Op) -> None:
    engine.batch.actions[0][rows] = 1
    engine.batch.op[rows] = op


def _exchange(engine: Engine, op: Op) -> None:
    _write(engine, _EVERYONE, op)
    engine.send(_EVERYONE)
    engine.recv(_COUNT, 10.0)


def _opened(factory: EngineFactory, failing: int | None = None) -> contextlib.closing[Engine]:
    """An engine over LawEnvs that is closed at the end."""
    return contextlib.closing(factory([partial(LawEnv, row, 1 if row == failing else None) for row in range(_COUNT)]))


def law(name: str, holds: bool, message: str) -> None:
    """Raise AssertionError unless the law holds."""
    if not holds:
        raise AssertionError(f"the law of {name} does not hold: {message}")
