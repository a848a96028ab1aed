"""Every row of the catalogue of bad input, 1 to 88, has a test: the numbers in names of tests and cases tell which.

Row 24, a script without a main guard, is no error here: it works. Rows 13, 14, 32, 49, 51 and 55 are input that other
libraries refuse or mistake and that is right here. Rows 85 and 86 are options of a server, which there is not.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROWS = range(1, 89)
HERE = Path(__file__).parent
FILES = [HERE.parent / "test_bad_input.py", *sorted(HERE.glob("test_bad_*.py"))]
NOT_APPLICABLE = (85, 86)


def _leading(words: list[str]) -> set[int]:
    """Numbers that a name begins with: 63; 77 78; 83 to 88."""
    numbers: list[int] = []
    for place, word in enumerate(words):
        if word.isdecimal():
            numbers.append(int(word))
        elif word == "to" and words[place + 1].isdecimal():
            numbers.extend(range(numbers[-1], int(words[place + 1])))
        else:
            break
    return set(numbers)


def table() -> dict[int, list[str]]:
    """Tests and cases by row."""
    found: dict[int, list[str]] = defaultdict(list)
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for row in _leading(node.name.split("_")[1:]):
                    found[row].append(f"{file.name}::{node.name}")
            elif isinstance(node, ast.Dict):
                for key in node.keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        for row in _leading(key.value.split()[:1]):
                            found[row].append(f"{file.name}: {key.value}")
    return found


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_a_test(row: int) -> None:
    assert table()[row], f"no test is named after row {row}"


def test_no_test_is_named_after_a_row_that_is_not_there() -> None:
    assert set(table()) <= set(ROWS)


def test_rows_that_do_not_apply_are_tested_to_be_so() -> None:
    for row in NOT_APPLICABLE:
        assert any("no_command_serves_anything" in name for name in table()[row])
