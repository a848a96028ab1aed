"""The text before every generated program: `runtime.h`, and distributions with their tables if they are drawn."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

PLAIN = frozenset({"random", "uniform", "integers", "choice", "shuffle", "permutation", "sample"})
"""Functions that draw whose C++ is in `runtime.h` itself; so are those that fill arrays with such numbers."""


def runtime(precision: str, draws: Collection[str]) -> str:
    """What stands before a program that draws by these functions."""
    exact, fast = "#undef VECENV_FAST\ntypedef double real;\n", "#define VECENV_FAST 1\ntypedef float real;\n"
    here = Path(__file__)
    text = here.with_name("runtime.h").read_text(encoding="utf-8")
    others = {draw.removeprefix("fill_") for draw in draws} - PLAIN
    distributions = _distributions(here.with_name("distributions.h")) if others else ""
    return (fast if precision == "fast" else exact) + text.replace("  // DISTRIBUTIONS\n", distributions)


def _distributions(path: Path) -> str:
    from vecenv.kernel.numba import distributions as known  # the one place that has the tables

    def words(numbers: Iterable[Any]) -> str:
        return ", ".join(f"{int(number)}ULL" for number in numbers)

    def floats(numbers: Iterable[Any]) -> str:
        return ", ".join(f"(real){float(number)!r}" for number in numbers)

    values = {
        "NORMAL_BOUNDS": words(known._NORMAL_BOUNDS),
        "NORMAL_WIDTHS": floats(known._NORMAL_WIDTHS),
        "NORMAL_HEIGHTS": floats(known._NORMAL_HEIGHTS),
        "NORMAL_INVERSE": repr(known._NORMAL_INVERSE_EDGE),
        "NORMAL_EDGE": repr(known._NORMAL_EDGE),
        "EXPONENTIAL_BOUNDS": words(known._EXPONENTIAL_BOUNDS),
        "EXPONENTIAL_WIDTHS": floats(known._EXPONENTIAL_WIDTHS),
        "EXPONENTIAL_HEIGHTS": floats(known._EXPONENTIAL_HEIGHTS),
        "EXPONENTIAL_EDGE": repr(known._EXPONENTIAL_EDGE),
        "STIRLING": floats(known._STIRLING),
        "LOG_2_PI": repr(known._LOG_2_PI),
        "EXACT_FOR_SMALL_P": "true" if known._EXACT_FOR_SMALL_P else "false",
    }
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(name, value)
    return text
