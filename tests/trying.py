"""How many random cases a suite tries: a few in `make test`, many in `make test-all`; FUZZ multiplies both.

    FUZZ=20 pytest -m "" tests/fuzz tests/laws

A test asks for the fixture `tried`, a Counter, and counts what it tried by name. The last lines of a run say the sums,
also of a run on several processes.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

TIMES = int(os.environ.get("FUZZ", "1"))


def tries(quick: int, many: int, seconds: float = 0.0) -> pytest.MarkDecorator:
    """Parametrize a test by `count`: `quick` cases in `make test`, `many` in `make test-all`; with their time limits.

    Args:
        seconds: that a case may take on a busy machine.
    """

    def case(count: int, *marks: Any) -> Any:
        return pytest.param(count * TIMES, marks=[pytest.mark.timeout(60 + seconds * count * TIMES), *marks])

    return pytest.mark.parametrize("count", [case(quick), case(many, pytest.mark.slow)], ids=["quick", "many"])
