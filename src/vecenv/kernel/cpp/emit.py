"""The whole text of a kernel in C++: the body of one native function, which Warp calls once per thread."""

from __future__ import annotations

from vecenv.kernel.cpp.rows import row_program
from vecenv.kernel.cpp.runtime import runtime
from vecenv.kernel.lower.columns import Slot
from vecenv.kernel.lower.program import Program

ARGUMENTS = {
    "thread": "int64",
    "table": "uint64",
    "rows": "uint64",
    "start": "int64",
    "stop": "int64",
    "alive": "int64",
    "over": "int64",
    "steps": "int64",
    "check": "int64",
    "chunk": "int64",
    "notes": "uint64",
    "action": "uint64",
}
"""Arguments of the native function: the thread's number, the words of `lower/columns.py`'s ORDERS, how many rows a
thread runs, the address of `rows.NOTES`, and that of the actions if they are not in their column (0: they are). All
other addresses travel in one table: the arguments of a GPU's kernel are limited in size."""
_NOTE = """
#undef VECENV_ADD
#undef VECENV_LEAST
#ifdef VECENV_GPU
  #define VECENV_ADD(place, value) atomicAdd((unsigned long long*)(place), (unsigned long long)(value))
  #define VECENV_LEAST(place, value) atomicMin((unsigned long long*)(place), (unsigned long long)(value))
#else
  #define VECENV_ADD(place, value) (*(place) += (value))
  #define VECENV_LEAST(place, value) (*(place) = (value) < *(place) ? (value) : *(place))
#endif
"""


def source(program: Program, precision: str) -> tuple[str, list[Slot]]:
    """The text, and the columns that it works on. Raises KernelError for what has no C++."""
    rows = row_program(program)
    return "\n".join([runtime(precision, program.draws), _NOTE, rows.text, rows.run]), rows.slots
