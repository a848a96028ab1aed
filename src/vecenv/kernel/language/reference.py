"""The page of the language in docs/kernels.md, written from the tables that the checker reads.

    python -m vecenv.kernel.language.reference docs/kernels.md

writes it anew; a test compares the two.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from vecenv.kernel import rng as random_numbers
from vecenv.kernel.language import array_functions, draws, forbidden
from vecenv.kernel.language.names import DICT_METHODS
from vecenv.kernel.language.queues import LIST_METHODS, QUEUE_METHODS
from vecenv.kernel.language.scope import METHODS
from vecenv.kernel.numba.emit import NOT_IN_CACHED_CODE

BEGIN, END = "<!-- The language: generated, see kernel/language/reference.py -->", "<!-- End of the language -->"
_KINDS = {
    array_functions.CONSTRUCTOR: "new arrays, of a shape that is known when the kernel is compiled",
    array_functions.ELEMENTWISE: "element by element, with broadcasting",
    array_functions.REDUCTION: "numbers of many elements, of all or along an axis",
    array_functions.MOVER: "elements at other places",
    array_functions.SELECTION: "selections, whose size is known only when they run",
}
_TYPES = "float int bool np.int8 np.int16 np.int32 np.int64 np.uint8 np.uint16 np.uint32 np.float32 np.float64"


def page() -> str:
    """The text between the two marks, without them."""
    return "\n\n".join(("## The language", _summary(), _allowed(), _refused()))


def _summary() -> str:
    return (
        "A kernel is plain Python over numbers and NumPy arrays of fixed size. What is listed here runs in Python and\n"
        "in native code, with the same bits. Anything else is refused when the kernel is defined or made, on every\n"
        "engine: one `KernelError` names every mistake with its file and line, and what to write instead."
    )


def _allowed() -> str:
    rows = [
        ("statements", _code(forbidden.STATEMENTS.values())),
        ("expressions", _code(forbidden.EXPRESSIONS.values())),
        ("methods", _code(f"{name}({', '.join(_short(role) for role in roles)})" for name, roles in METHODS.items())),
        ("types of fields", f"{_code(_TYPES.split())}, and arrays of them: `(np.int8, (10, 10))`"),
        ("numbers that are computed with", "Python's: `bool`, `int` of 64 bits, `float`; of arrays NumPy's, NEP 50"),
        ("from outside", "numbers, NumPy arrays, tuples, lists, dicts and sets of numbers, `IntEnum`s"),
        ("dicts from outside", f"`TABLE[key]`, `in`, `len`, loops, {_code(f'TABLE.{n}()' for n in DICT_METHODS)}"),
        ("sets", "`x in SET`, `x in {1, 2}`"),
        (
            "lists, of numbers and tuples of numbers",
            "`[]`, `[a, b]`, `[0] * n`, `items = [2 * x for x in row if x > 0]`, "
            f"{_code(f'items.{name}()' for name in LIST_METHODS)}, `items[i]`, `len`, `in`, loops",
        ),
        (
            "queues",
            "`vecenv.kernel.Queue(dtype, capacity)`: "
            f"{_code(f'queue.{name}()' for name in QUEUE_METHODS)}, `queue[i]`, `len`, `in`, loops",
        ),
        ("functions", f"your own, which may take `s`, `rng`, `p` and arrays; {_code(sorted(forbidden.BUILTINS))}"),
        ("`math`", _words(forbidden.MATH - NOT_IN_CACHED_CODE.keys())),
    ]
    for kind, title in _KINDS.items():
        functions = [function for function in array_functions.FUNCTIONS.values() if function.kind == kind]
        names = [name for function in functions for name in function.names]
        own = [f"x.{function.name}()" for function in functions if not function.names]
        rows.append((f"NumPy: {title}", f"{_words(names, in_order=True)}{', ' * bool(own)}{_code(own)}"))
    methods = _code(f"x.{name}()" for name in array_functions.METHODS)
    rows.append(
        ("methods and attributes of arrays", f"{methods}, {_code(f'x.{n}' for n in array_functions.ATTRIBUTES)}")
    )
    rows.append(("`rng`", _code(f"{name}({takes})" for name, takes in random_numbers.METHODS.items())))
    written = [name for name in random_numbers.IN_PLACE if not name.startswith("fill_")]
    into = _code(f"{name}{_signature(name)}" for name in written)
    filled = "`fill_` with the name of any draw of one number: `fill_normal(rng, out, loc=0.0, scale=1.0)`"
    rows.append(("`vecenv.kernel.rng`: into an array", f"{into}, and {filled}"))
    return _table(("what", "there is"), rows)


def _refused() -> str:
    rows: list[tuple[str, str]] = []
    for rule, nodes in _by_text(
        {forbidden.SPELLED[name]: rule for name, rule in forbidden.SYNTAX_BY_NAME.items()}
    ).items():
        rows.append((_code(nodes), rule.partition("; ")[2] or rule))
    for instead, names in _by_text(forbidden.BUILTINS_INSTEAD).items():
        rows.append((_code(f"{name}()" for name in names), instead))
    without = {**forbidden.MATH_INSTEAD, **NOT_IN_CACHED_CODE}
    for instead, names in _by_text({name: text for name, text in without.items() if name not in _math()}).items():
        rows.append((_code(f"math.{name}" for name in names), instead))
    rounded = [f"np.{name}" for name in forbidden.NUMPY_ROUNDS_OTHERWISE]
    rows.append((_words(rounded), "the function of `math`, of one number: NumPy rounds otherwise"))
    known = {name for function in array_functions.FUNCTIONS.values() for name in function.names}
    builds = forbidden.NUMPY_ALLOCATES - known
    rows.append((_words([f"np.{name}" for name in builds]), "an array of `state`, or a local one, and a for loop"))
    adds = forbidden.NUMPY_ADDS_OTHERWISE - known
    rows.append((_words([f"np.{name}" for name in adds]), "a for loop, or `np.sum`: they add in an order of their own"))
    for instead, names in _by_text(forbidden.METHODS_INSTEAD).items():
        rows.append((_code(f"x.{name}()" for name in names), instead.format(owner="x")))
    for instead, names in _by_text(draws.INSTEAD).items():
        rows.append((_code(f"rng.{name}" for name in names), instead))
    for name, instead in forbidden.MODULES_INSTEAD.items():
        rows.append((f"the module `{name}`", instead))
    return _table(("refused", "instead"), rows)


def _math() -> frozenset[str]:
    return forbidden.MATH - NOT_IN_CACHED_CODE.keys()


def _short(role: str) -> str:
    return {"state": "s", "params": "p"}.get(role, role)


def _signature(name: str) -> str:
    parameters = list(inspect.signature(getattr(random_numbers, name)).parameters.values())
    shown = []
    for parameter in parameters[name in random_numbers.NUMBERS :]:
        default = "" if parameter.default is parameter.empty else f"={parameter.default}"
        shown.append(f"{parameter.name}{default}")
    return f"({', '.join(shown)})"


def _by_text(texts: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in texts.items():
        found.setdefault(text, []).append(name)
    return found


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _words(names: Iterable[str], *, in_order: bool = False) -> str:
    """Many names in one span of code."""
    return f"`{' '.join(names if in_order else sorted(names))}`"


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {_cell(left)} | {_cell(right)} |" for left, right in rows)])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def renewed(text: str) -> str:
    """A page with the part between the marks written anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{page()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
