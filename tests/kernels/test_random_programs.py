"""Programs that were written at random: Python, loops and native code have the same bits, and every error is ours."""

from __future__ import annotations

import pytest

from tests.kernels.trying_programs import try_programs
from tests.trying import tries
from vecenv.engines.native.compiled import CompiledEngine


@pytest.fixture
def untried(monkeypatch):
    """Kernels are not tried out in Python before they are compiled: the states of these tests are not zero."""
    monkeypatch.setattr(CompiledEngine, "_try_out", lambda self: None)


@tries(24, 2000, seconds=10)
def test_random_programs_do_the_same_in_python_and_natively(count, tmp_path, untried, tried):
    """Many programs are one kernel, because the compiler needs a second before it begins."""
    result = try_programs(range(count), tmp_path, native=True, batch=24)
    assert not result.defects, "\n".join(result.defects[:5])
    assert result.tried["native"] >= count // 2, result.refused
    tried["random kernel programs, natively"] += result.tried["native"]


@tries(40, 2000, seconds=1)
def test_random_programs_do_the_same_in_python_and_as_loops(count, tmp_path, tried):
    """Without the compiler: what the stages before it make of the programs, run by Python."""
    result = try_programs(range(10_000, 10_000 + count), tmp_path, native=False)
    assert not result.defects, "\n".join(result.defects[:5])
    tried["random kernel programs, as loops"] += result.tried["as loops"]
