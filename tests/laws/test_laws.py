"""The six laws, on every engine."""

from functools import partial

import numpy as np
import pytest

from vecenv._batch.batch import Op
from vecenv.engines.aio.engine import AsyncioEngine
from vecenv.engines.process.engine import ProcessEngine
from vecenv.engines.python.sync import SyncEngine
from vecenv.engines.python.thread import ThreadEngine
from vecenv.testing import _laws, check_engine
from vecenv.testing._law_kernel import law_kernel_engine

ENGINES = {
    "sync": SyncEngine,
    "thread-1": partial(ThreadEngine, workers=1),
    "thread-2": partial(ThreadEngine, workers=2),
    "process-1": partial(ProcessEngine, workers=1, context="fork"),
    "process-2": partial(ProcessEngine, workers=2, context="fork"),
    "process-5": partial(ProcessEngine, workers=5, context="fork"),
    "process-forkserver": partial(ProcessEngine, workers=2, context="forkserver"),
    "process-spawn": partial(ProcessEngine, workers=2, context="spawn"),
    "process-caller": partial(ProcessEngine, workers=1, context="fork", caller_works=True),
    "process-ordered": partial(ProcessEngine, workers=2, context="fork", ordered=True),
    "thread-ordered": partial(ThreadEngine, workers=2, ordered=True),
    "asyncio": AsyncioEngine,
    "asyncio-one-at-a-time": partial(AsyncioEngine, concurrency=1, step_timeout=10.0),
    "asyncio-ordered": partial(AsyncioEngine, ordered=True),
}


@pytest.mark.parametrize("law", ["ownership", "exactness", "completeness", "seeds", "failure", "sameness"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_six_laws_hold(engine, law):
    getattr(_laws, law)(ENGINES[engine])


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_laws_hold_in_native_code(precision, threads):
    """Five of the six: native code cannot raise, so there is no failure to report."""
    check_engine(partial(law_kernel_engine, precision=precision, threads=threads), infos=False, failures=False)


def test_check_engine_runs_all_laws():
    check_engine(SyncEngine)


class _Broken(SyncEngine):
    """Breaks one law at a time, to see that each check can fail."""

    fault = ""

    def send(self, rows):
        if self.fault == "seeds":
            self.batch.seed[:] = 3
        super().send(rows)

    def recv(self, count, timeout=None):
        try:
            rows = super().recv(count, timeout)
        except Exception as error:
            if self.fault == "failure":
                error.row = 1
            raise
        if self.fault == "ownership":
            self.batch.actions[0][:] = 1
        if self.fault == "exactness":
            return rows[::-1]
        if self.fault == "completeness":
            self.batch.op[rows] = Op.IDLE
        if self.fault == "sameness":
            self.batch.reward[rows] = np.nextafter(self.batch.reward[rows], 2)
        return rows


@pytest.mark.parametrize("law", ["ownership", "exactness", "completeness", "seeds", "failure", "sameness"])
def test_an_engine_that_breaks_a_law_is_found_out(law):
    broken = type("Broken", (_Broken,), {"fault": law})
    with pytest.raises(AssertionError, match=f"the law of {law}"):
        getattr(_laws, law)(broken)


@pytest.mark.parametrize("ordered", ["process-ordered", "thread-ordered", "asyncio-ordered"])
def test_ordered_engines_return_rows_in_the_order_they_were_sent(ordered):
    with _laws._opened(ENGINES[ordered]) as engine:
        _laws._reset(engine)
        for rows in ([3], [0, 4], [1], [2]):
            _laws._write(engine, np.array(rows), Op.STEP)
            engine.send(np.array(rows))
        assert [engine.recv(1, 10.0).item() for _ in range(4)] == [3, 0, 4, 1]
        assert engine.recv(1, 10.0).item() == 2
