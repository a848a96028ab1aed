"""A plugin of pytest: the compiled engine runs the C++ backend in place of Numba's. `-p tests.device.in_place`."""

import pytest

from vecenv.kernel import backend
from vecenv.kernel.cpp.backend import CppBackend


@pytest.fixture(autouse=True)
def cpp_in_place_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_backend", CppBackend)
