"""Functions with fixed arguments: what they rule out is gone, and everything else is as it was."""

from __future__ import annotations

import dis
import linecache
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.defining import imported
from vecenv._util.forks import HERE, _HereByPid, only_here
from vecenv._util.specialise import specialise


def total(numbers: list[float], *, squares: bool, checked: bool, start: float = 0.0) -> float:
    """The sum of the numbers, or of their squares."""
    result = start
    for number in numbers:
        if checked and number < 0:
            raise ValueError(number)
        result += number**2 if squares else number
    return result


@pytest.mark.parametrize("squares", [True, False])
@pytest.mark.parametrize("checked", [True, False])
def test_the_special_function_does_what_the_general_one_does(squares: bool, checked: bool) -> None:
    special = specialise(total, squares=squares, checked=checked)
    expected = total([1.0, 3.0], squares=squares, checked=checked, start=2.0)
    assert special([1.0, 3.0], start=2.0) == expected
    assert ("ValueError" in [instruction.argval for instruction in dis.get_instructions(special)]) is checked


def test_a_traceback_shows_the_line_of_the_function_itself() -> None:
    def last_frame(function: Callable[..., Any], **flags: bool) -> traceback.FrameSummary:
        with pytest.raises(ValueError, match="-1") as raised:
            function([-1.0], **flags)
        return traceback.extract_tb(raised.value.__traceback__)[-1]

    special = last_frame(specialise(total, squares=False, checked=True))
    assert special == last_frame(total, squares=False, checked=True)


def test_a_function_without_source_is_used_as_it_is() -> None:
    found: dict[str, Any] = {}
    exec("def double(value, *, negative): return -2 * value if negative else 2 * value", found)
    assert specialise(found["double"], negative=True)(4) == -8


def test_a_function_whose_file_has_changed_since_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def double(value, *, negative):\n    return -2 * value if negative else 2 * value\n")
    with imported(path) as module:
        path.write_text("def double(value, *, negative):\n    return 1000\n")
        linecache.checkcache()
        assert specialise(module.double, negative=True)(4) == -8


@pytest.mark.parametrize("make", [only_here, _HereByPid])
def test_a_forked_process_is_known_as_one(make: Callable[[], Any]) -> None:
    word = make()
    assert word[0] == HERE[0] == 1
    child = os.fork()
    if child == 0:
        os._exit(word[0] + 40)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40
    assert word[0] == 1
