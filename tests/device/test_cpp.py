"""C++ on the CPU device: every column, every bit, as the compiled engine has it; and what C++ would do otherwise."""

# ruff: noqa: E501
# Tables of short programs, one in a line.
import ast
import faulthandler
import os
import platform
import re
import signal
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import vecenv
from tests.device.engines import Pair
from tests.device.zoo import Zoo
from tests.kernels import native_kernels  # noqa: F401  # defines Distributions-v0
from tests.kernels.defining import imported
from tests.kernels.shipped import SHIPPED
from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout
from vecenv.engines.device.engine import DeviceEngine
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.cpp import host
from vecenv.kernel.cpp.backend import CppBackend
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.functions import Functions
from vecenv.kernel.cpp.host import WORDS, compiled_for, once, warp
from vecenv.kernel.cpp.host import kernel_of as kernel_of_text
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.lower.typed import LoweredInference, common, parameters_of
from vecenv.kernel.lower.types import Array, Number, Tuple, wide
from vecenv.kernel.numba.compile import _names
from vecenv.kernel.numba.emit import emit
from vecenv.kernel.numba.math import NATIVE
from vecenv.testing._check_kernel import _compare, _python_envs
from vecenv.testing._lines import Lines

SAMPLE = ("CartPole-v1", "Snake-v0", "Distributions-v0")
OPS = {"same-step": (Op.ROLL, Op.ROLL), "next-step": (Op.STEP, Op.RESET)}


def program_of(kernel):
    spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    return resolve(kernel, *map(Layout, spaces))


def compared_with_python(definition, steps, mode="same-step", count=6):
    """Asserts that C++ and the kernel's run in Python have the same bits; returns how many episodes ended."""
    kernel = kernel_of(definition)
    with (
        vecenv.make(_python_envs(kernel, {}, count), engine="sync", autoreset=mode) as reference,
        vecenv.make(definition, count, device="cpu", results="numpy", autoreset=mode) as native,
    ):
        return _compare(reference, native, steps, 0, None, Lines(kernel)).episodes


# --- parity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", OPS)
@pytest.mark.parametrize("id", SAMPLE)
def test_every_column_is_bit_equal_to_the_compiled_engine(id, mode):
    Pair(find_kernel(id), 16).compare(60, *OPS[mode])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", OPS)
@pytest.mark.parametrize("id", SHIPPED)
def test_every_column_of_every_kernel_is_bit_equal_to_the_compiled_engine(id, mode):
    Pair(find_kernel(id), 256).compare(1000, *OPS[mode])


@pytest.mark.parametrize("mode", OPS)
def test_the_whole_language_is_bit_equal_to_python(mode):
    assert compared_with_python(Zoo, 100, mode) > 10


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", OPS)
def test_the_whole_language_is_bit_equal_to_the_compiled_engine(mode):
    pair = Pair(kernel_of(Zoo), 64)
    pair.compare(300, *OPS[mode])
    assert pair.episodes > 300


def test_a_rollout_is_bit_equal_to_the_compiled_engine():
    pair, generator = Pair(find_kernel("CartPole-v1"), 8), np.random.default_rng(0)
    actions = [generator.integers(0, 2, (50, 8))]
    one, other = (engine.rollout(actions, 50, 3, 3, None) for engine in (pair.compiled, pair.device))
    assert one.keys() == other.keys()
    ended = one["TERMINATED"] | one["TRUNCATED"]
    for name, column in one.items():
        where = ended if name.startswith("F") else np.ones_like(ended)
        assert column[where].tobytes() == other[name][where].tobytes(), name


# --- types -----------------------------------------------------------------------------------------------------------


def numba_types(program, emitted, names, instance):
    """The types that Numba infers for the variables of a function with the arguments of an instance."""
    from numba import types
    from numba.core import compiler, registry, ssa, typed_passes

    def number(dtype):
        return types.boolean if dtype == "bool" else getattr(types, dtype)

    def theirs(kind):
        if isinstance(kind, Array):
            return types.Array(number(kind.dtype), len(kind.shape), "C")
        if isinstance(kind, Tuple):
            return types.Tuple(tuple(map(theirs, kind.items)))
        return number(kind.dtype)

    def given(name):
        kind, _, own = name.partition("__")
        if kind in ("s", "p"):
            field = (program.kernel.state if kind == "s" else program.kernel.params)[own]
            if field.shape or (kind == "s" and not one.registers):
                return types.Array(number(field.dtype.name), len(field.shape) or 1, "C")
            return theirs(wide(Number(field.dtype.name)))
        if kind in ("obs", "action") and own.isdigit():
            leaf = program.layouts[kind].leaves[int(own)]
            if leaf.shape or kind == "obs":
                return types.Array(number(leaf.dtype.name), len(leaf.shape) or 1, "C")
            return theirs(wide(Number(leaf.dtype.name)))
        if one.function.roles.get(name) == "rng":
            return types.Array(types.uint64, 1, "C")
        if one.function.roles.get(name) == "mask":
            return types.Array(types.int8, 1, "C")
        return theirs(plain[name])

    one = emitted.functions[instance.function.name]
    own = [parameter.name for parameter in parameters_of(one.function) if parameter.role is None]
    plain = dict(zip(own, instance.arguments, strict=True))
    function = names[one.function.name].py_func
    intermediate = ssa.reconstruct_ssa(compiler.run_frontend(function))
    arguments = tuple(given(argument.arg) for argument in one.node.args.args)
    target = registry.cpu_target
    target.typing_context.refresh()
    target.target_context.refresh()
    found = typed_passes.type_inference_stage(
        target.typing_context, target.target_context, intermediate, arguments, None
    )
    return found[0]


def same(ours, theirs):
    """Whether a type of ours is one of Numba's; None where Numba has no such thing."""
    from numba import types

    theirs = types.unliteral(theirs)
    if isinstance(ours, Number):
        return theirs == types.boolean if ours.dtype == "bool" else str(theirs) == ours.dtype
    if isinstance(ours, Array):
        return (
            isinstance(theirs, types.Array)
            and theirs.ndim == len(ours.shape)
            and same(Number(ours.dtype), theirs.dtype)
        )
    if isinstance(ours, Tuple):
        return isinstance(theirs, types.BaseTuple) and all(map(same, ours.items, theirs.types))
    return True


class _Unpolled(ast.NodeTransformer):
    """Leaves out what loops ask about interrupts: it raises, and a pass before Numba's inference rewrites that."""

    def visit_While(self, node):
        self.generic_visit(node)
        node.body = node.body[1:] or [ast.Pass()]
        return node


def compared_types(kernel):
    """How many variables were compared; asserts that Numba infers a type of ours for each of them."""
    from numba import njit

    program = program_of(kernel)
    emitted, names, inference = emit(program), _names(program, "exact"), LoweredInference(program)
    inference.run()
    for name, one in emitted.functions.items():
        node = _Unpolled().visit(one.node)
        exec(compile(ast.Module([node], []), one.function.source.file, "exec"), names)
        names[name] = njit(**NATIVE)(names[name])
    count = 0
    for (name, _), instance in inference.instances.items():
        for variable, kind in numba_types(program, emitted, names, instance).items():
            kinds = instance.stored.get(variable.split(".")[0])
            if not kinds or variable.startswith(("$", "arg.")):
                continue
            joined = [common([one for one in kinds if isinstance(one, Number)])] if isinstance(kinds[0], Number) else []
            count += 1
            assert any(same(one, kind) for one in [*kinds, *joined]), (kernel.id, name, variable, kinds, kind)
    return count


def test_types_are_those_that_numba_infers():
    assert compared_types(find_kernel("CartPole-v1")) + compared_types(find_kernel("Snake-v0")) > 30


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("id", [*SHIPPED, "DeviceZoo-v0"])
def test_types_of_every_function_of_every_kernel_are_those_that_numba_infers(id):
    assert compared_types(find_kernel(id)) > 0


# --- what C++ would do otherwise -------------------------------------------------------------------------------------

HEAD = """
import math
import numpy as np
from gymnasium.spaces import Box, Discrete
import vecenv
from vecenv.kernel.rng import uniform, integers, normal

TABLE = np.array([0.3, -1.7, 2.2, 0.9])
PAIRS = [(0, 1), (2, 1), (3, 0)]

def note(s):
    s.calls += 1
    return s.calls

@vecenv.kernel("{name}-v0", max_episode_steps=20)
class Small:
    observation_space, action_space = Box(-np.inf, np.inf, (2,), np.float64), Discrete(4)
    state = {{"x": float, "k": int, "calls": int, "f": np.float32, "c": np.int8, "row": (float, 4)}}

    bounds = {{"wild": (0, 1)}}

    class Params:
        wild = 0

    def reset(s, rng, p):
        s.x, s.k, s.calls = uniform(rng, -3.0, 3.0), integers(rng, -9, 9), 0

    def step(s, action, rng, p):
{body}
        return s.x, False

    def observe(s, obs, p):
        obs[0] = s.x
        obs[1] = s.k
"""
PITFALLS = {
    "order of operands": "s.x = uniform(rng) - uniform(rng) * 3.0\ns.k = s.calls * 100 + note(s) * 10 + note(s)",
    "order of a value and its index": "s.row[integers(rng, 4)] = uniform(rng)\ns.x = s.row[1]",
    "and, or and if with effects": "s.x = uniform(rng) if note(s) % 2 or note(s) > 5 else normal(rng)\ns.k = s.calls",
    "a square is pow": "s.x = (s.x * 1.1) ** 2 % 7.0 + 0.1",
    "powers": "s.x = abs(s.x) ** 0.3 + 1.0\ns.k = (s.k % 5) ** 3",
    "fused products": "s.x = s.x * 1.1 + s.x * s.x * 0.3 - 0.7\ns.x = s.x % 3.0",
    "modulo and floor division": "s.k = (s.k * 7 - 50) // -4 % -6\ns.x = (s.x - 5.0) // 0.7 + s.x % -1.3",
    "division by zero": "s.k = s.k // (1 - p.wild)\ns.x = s.x / (1 - p.wild) if action > 2 else s.x % 2.0",
    "negative indices": "s.row[-1 - action] = s.x\ns.x = s.row[s.k % 4 - 4] + s.row[::-1][0] + 1.0",
    "min and max with NaN": "y = s.x * math.inf * 0.0\nz = min(y, s.x)\ns.x = (1.0 if z == z else 2.5) + max(s.x, y) * 0.1 + min(1.0, y)",
    "max with NaN first": "y = s.x * math.inf * 0.0\nz = max(y, s.x)\ns.x = (1.0 if z == z else 2.5) + action",
    "whole parts": "s.k = int(s.x * 3.7) + round(s.x + 0.5)\ns.x = s.x * -1.3 if abs(s.x) < 9.0 else 0.7",
    "words of 64 bits": "s.k = integers(rng, 5, 9007199254740993)\ns.x = uniform(rng)",
    "words of C++ as names": "new = s.x\nclass_ = 1.0\ndouble = new + class_\nint64 = action\ns.x = double * 0.5 + int64",
    "ints that overflow": "if p.wild:\n    s.k = s.k * 6364136223846793005 + 1442695040888963407\ns.c = s.k >> 3 & 127",
    "quotients without a value": "d = action - 1 if p.wild else 1\ns.k = s.k // d\ns.calls = s.calls % d",
    "tables": "s.x = TABLE[action] + s.x * 0.5\ns.k = 1 if (action, 1) in PAIRS else 0",
    "a variable of two types": "y = s.k\nbig = 9007199254740993 + y\ns.k = (big & 255) + y // 2\ny = s.x * 0.5\ns.x = y // 2 + y",
    "narrow numbers": "s.f = s.x * 0.1\ns.x = s.f * 0.1 + float(np.float32(s.x)) * float(np.float32(0.3))\ns.c = s.k % 100",
    "a chain is computed once": "s.k = 1 if 0 < note(s) < note(s) else 2\ns.x = s.calls + 0.5",
    "a function that is missing": "s.x = math.tanh(s.x)",
    "else of a loop": "for j in range(action):\n    if j == 2:\n        break\nelse:\n    s.x += 1.0\ns.k = action",
}  # fmt: skip
"""Programs whose bits depend on what the pitfall is about, by its name."""
APART = {
    "a sum that overflows": "big = p.wild * 9223372036854775803 + 4\ns.k = 1 if big + action > big else 0",
    "None in a tuple": "pair = (s.x, None)",
}
"""Programs without a counterpart: Numba, too, takes it for granted that sums do not overflow; and what C++ refuses."""
NOT_IN_PYTHON = (
    "division by zero", "ints that overflow", "a variable of two types", "quotients without a value",
)  # fmt: skip
"""Python raises, or has ints without end: only native code can be compared with. `wild` is 0 in the first row, which Python tries."""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """All pitfalls as kernels of one file."""

    def defined(name):
        body = textwrap.indent({**PITFALLS, **APART}[name], " " * 8)
        text = HEAD.format(name="Pitfall" + re.sub(r"\W", "", name), body=body)
        path = tmp_path_factory.mktemp("pitfalls") / "pitfall.py"
        path.write_text(text)
        with imported(path) as module:
            return module.Small

    return defined


@pytest.mark.parametrize("name", [name for name in PITFALLS if name not in NOT_IN_PYTHON])
def test_a_pitfall_of_cpp_is_avoided(name, small):
    compared_with_python(small(name), 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", PITFALLS)
def test_a_pitfall_of_cpp_is_avoided_in_every_column(name, small):
    Pair(kernel_of(small(name)), 64, wild=np.arange(64) > 0).compare(100, Op.ROLL, Op.ROLL)


MUTATIONS = {
    "a square is pow": (r"\? square : pow_\(a, \(real\)2\)", "? square : square", "a square is pow"),
    "a hidden exponent": (r"volatile real hidden = b; return M_\(pow\)\(a, hidden\);", "return M_(pow)(a, b);", "a square is pow"),
    "fused products": (r'_Pragma\("clang fp contract\(off\)"\)', '_Pragma("clang fp contract(fast)")', "fused products"),
    "C's modulo": (r"\(r != 0 && \(\(r < 0\) != \(b < 0\)\)\) \? r \+ b : r", "r", "modulo and floor division"),
    "C's division": (r"\(q \* b != a && .*?\) \? q - 1 : q", "q", "modulo and floor division"),
    "C's indices": (r"return i < 0 \? i \+ n : i;", "return i < 0 ? 0 : i;", "negative indices"),
    "C's modulo of floats": (r"if \(m != 0\) \{ if \(\(b < 0\) != \(m < 0\)\) m \+= b; \}", "if (m != 0) {}", "modulo and floor division"),
    "C's division of floats": (r"const real f = M_\(floor\)\(d\); return d - f > \(real\)0.5 \? f \+ 1 : f;", "return a / b;",
                               "modulo and floor division"),
    "fmax": (r"real max_f\(real a, real b\) \{.*?\}", "real max_f(real a, real b) { return __builtin_fmax(a, b); }",
             "max with NaN first"),
    "the high half of a product": (r"return \(u64\)\(\(\(unsigned __int128\)a \* b\) >> 64\);", "return a * b;", "words of 64 bits"),
    "rounding half to even": (r"U::rint_\(", "U::floor_(", "whole parts"),
    "fmin": (r"real min_f\(real a, real b\) \{.*?\}", "real min_f(real a, real b) { return __builtin_fmin(a, b); }",
             "min and max with NaN"),
}  # fmt: skip
"""Texts in which a fix is undone, and the program that must notice."""


@pytest.fixture
def undo(monkeypatch):
    """Puts another text in the place of a pattern in all C++ that is made from now on."""
    from vecenv.kernel.cpp import backend

    def undone(pattern, instead):
        def changed(program, precision):
            text, slots = source(program, precision)
            other = re.sub(pattern, instead, text)
            assert other != text
            return other, slots

        monkeypatch.setattr(backend, "source", changed)
        monkeypatch.setattr(backend, "digest_of", lambda *_: None)  # texts that were written before are not used

    return undone


@pytest.mark.parametrize("fix", MUTATIONS)
def test_the_programs_notice_if_a_fix_is_missing(fix, small, undo):
    """A comparison that cannot fail says nothing."""
    pattern, instead, program = MUTATIONS[fix]
    undo(pattern, lambda _: instead)
    with pytest.raises(AssertionError, match="differ"):
        compared_with_python(small(program), 150, count=16)


def wild_engine(definition):
    """Four rows before a step with the actions 3, 0, 1 and 2. All but the first do what Python would not."""
    engine = DeviceEngine(kernel_of(definition), 4, kwargs={"wild": np.array([0, 1, 1, 1])})
    engine.batch.op[:] = Op.STEP
    engine.batch.actions[0][...] = [3, 0, 1, 2]
    return engine


def test_ints_that_overflow_would_not_wrap(small, undo):
    """clang takes it for granted that a sum does not overflow: that big + action > big is whether action > 0."""
    for expected in ([1, 0, 0, 0], [1, 0, 1, 1]):
        engine = wild_engine(small("a sum that overflows"))
        engine.exchange_all(0, 0, rotate=False)
        assert engine._columns["S_k"].tolist() == expected
        undo(r"return \(i64\)\(\(u64\)a \+ \(u64\)b\);", "return a + b;")


def signal_of_a_step(engine):
    """The signal that ends a process which steps an engine, 0 if it lives on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 says that threads are not copied
        child = os.fork()
    if child == 0:
        faulthandler.disable()
        engine.exchange_all(0, 0, rotate=False)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="only these processors raise a signal")
@pytest.mark.parametrize("fix", [
    r"if \(b == 0\) return 0;", r"if \(b == -1\) return neg_i\(a\);", r"if \(b == 0 \|\| b == -1\) return 0;",
])  # fmt: skip
def test_a_quotient_without_a_value_would_end_the_process(fix, small, undo):
    for expected in (0, signal.SIGFPE):
        engine = wild_engine(small("quotients without a value"))
        engine._columns["S_k"][:] = engine._columns["S_calls"][:] = np.iinfo(np.int64).min
        assert signal_of_a_step(engine) == expected
        undo(fix, "")


def effects_in_a_line(definition):
    """The most draws and calls with effects that one line of the text has."""
    text, _ = source(program_of(kernel_of(definition)), "exact")
    drawn = [line for line in text.splitlines() if "R::uniform(r.rng, " in line or "helper0__note" in line]
    return max(line.count("r.rng") + line.count("note_") for line in drawn if "static" not in line)


def test_operands_with_effects_are_computed_in_variables_before_the_expression(small, monkeypatch):
    """What clang does happens to be Python's order; the text must not leave it open."""
    assert effects_in_a_line(small("order of operands")) == 1
    monkeypatch.setattr(Functions, "has_effects", lambda self, node: False)  # without the fix
    assert effects_in_a_line(small("order of operands")) > 1


def test_names_of_the_user_that_are_words_of_cpp_would_not_compile(small, undo):
    undo(r"\bv_(\w+)", r"\1")
    with pytest.raises(KernelError):
        compared_with_python(small("words of C++ as names"), 1)


def test_templates_in_the_runtime_would_not_compile(small, undo):
    """The text stands inside a function, where structs hold no templates: each dtype and rank has a struct of its own."""
    undo(r"struct U \{", "struct U { template <class T> static T same(T value) { return value; }")
    with pytest.raises(KernelError):
        compared_with_python(small("powers"), 1)


TABLE = re.compile(r"(static CUDA_CALLABLE \w+ \w+\(\)) \{ (static const \w+ d\[\] = \{.*?\};)")


def test_tables_are_part_of_the_code_of_gpus(small, tmp_path):
    """Nothing need be copied to the device. Outside of functions they would not compile: local structs have no data."""
    text, _ = source(program_of(kernel_of(small("tables"))), "exact")
    ptx = compiled_for(kernel_of_text("tables", text), 80, tmp_path).read_text()
    numbers = np.array([0.3, -1.7, 2.2, 0.9]).tobytes()
    assert f"{{{', '.join(map(str, numbers))}}}" in ptx
    undone = TABLE.sub(r"\2 \1 {", text)
    assert undone != text
    with pytest.raises(Exception, match=r"(?i)error|fail"):
        compiled_for(kernel_of_text("tables", undone), 80, tmp_path)


def test_a_launch_has_as_many_arguments_however_many_columns_there_are(tmp_path):
    """Arguments of a launch are limited to 4 KB; columns are not: their addresses are in a table."""
    text, slots = source(program_of(find_kernel("CartPole-v1")), "fast")
    ptx = compiled_for(kernel_of_text("arguments", text), 80, tmp_path).read_text()
    head = ptx[ptx.index(".entry") :]
    arguments = head[: head.index(")")].count(".param")
    assert arguments <= len(WORDS) + 1 < len(slots)


def words_as_arguments(count):
    """A kernel of Warp that is launched with this many words, which stand for addresses of columns."""
    wp = warp()
    words = wp.types.vector(length=count, dtype=wp.uint64)

    def launched(addresses: words, out: wp.array(dtype=wp.uint64)):
        out[wp.tid()] = addresses[wp.tid()]

    return wp.kernel(launched, enable_backward=False, module="unique")


@pytest.mark.slow
def test_addresses_as_arguments_would_not_compile_for_gpus(tmp_path):
    """As many as a launch takes are compiled, one more is not: a kernel may have more columns than that."""
    most = 32_764 // 8 - 10
    compiled_for(words_as_arguments(most), 80, tmp_path, ptx=False)
    with pytest.raises(Exception, match=r"(?i)error|fail"):
        compiled_for(words_as_arguments(most + 10), 80, tmp_path, ptx=False)


def test_integers_of_128_bits_would_not_compile_for_gpus(tmp_path):
    """NVRTC has none without an option that Warp does not pass."""
    text, _ = source(program_of(find_kernel("CartPole-v1")), "exact")
    undone = text.replace("return __umul64hi(a, b);", "return (u64)(((unsigned __int128)a * b) >> 64);")
    assert undone != text
    with pytest.raises(Exception, match=r"(?i)error|fail"):
        compiled_for(kernel_of_text("wide", undone), 80, tmp_path)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_what_has_no_cpp_is_refused_with_its_line_before_anything_is_compiled(small, monkeypatch):
    """As if the backend had no tanh."""
    from vecenv.kernel.cpp import backend, calls

    monkeypatch.setattr(calls, "ONE", [name for name in calls.ONE if name != "tanh"])
    monkeypatch.setattr(backend, "kernel_of", lambda *_: pytest.fail("something is compiled"))
    monkeypatch.setattr(backend, "digest_of", lambda *_: None)  # texts that were written before are not used
    definition = small("a function that is missing")
    with pytest.raises(KernelError, match=r"step, line \d+ of .*math\.tanh.*engine='compiled'"):
        vecenv.make(definition, 2, device="cpu", results="numpy")


def test_none_in_a_tuple_is_refused_with_its_line(small):
    with pytest.raises(KernelError, match=r"step, line \d+ of .*a tuple with None"):
        DeviceEngine(kernel_of(small("None in a tuple")), 2)


def test_checked_programs_are_refused():
    kernel = find_kernel("Snake-v0")
    spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    refused = CppBackend().refuses(resolve(kernel, *map(Layout, spaces), check=True))
    assert refused is not None
    assert "check" in str(refused)


def test_equal_texts_are_compiled_once():
    kernel = find_kernel("CartPole-v1")
    one, other = DeviceEngine(kernel, 2), DeviceEngine(kernel, 3)
    assert one._native._kernel is other._native._kernel


def test_a_text_is_tried_in_python_until_it_was_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path))
    tried = []
    with pytest.raises(KernelError), once("text", lambda: tried.append("not compiled")):
        raise KernelError("the compiler refuses it")
    for _ in range(2):
        with once("text", lambda: tried.append("compiled")):
            pass
    assert tried == ["not compiled", "compiled"]


def test_our_headers_are_used_with_this_version_of_warp():
    """They state the layout of one struct of Warp: look at its own header before another version is added."""
    from vecenv.kernel.cpp.warp_kernel import cpu_flags

    own = (Path(warp().__file__).parent / "native" / "builtin.h").read_text()
    assert "-iquote" in cpu_flags()
    assert re.search(r"struct launch_bounds_t {[^}]*uint32_t shape\[N\];\s*size_t size;\s*size_t coord_mult;", own)


@pytest.mark.slow
def test_code_with_warps_own_headers_is_bit_equal(monkeypatch):
    """As with a version of Warp for which there are no other headers."""
    from vecenv.kernel.cpp import warp_kernel

    monkeypatch.setattr(host, "_kernels", {})
    monkeypatch.setattr(warp_kernel, "cpu_flags", lambda: "-march=native")
    Pair(find_kernel("Snake-v0"), 16).compare(60, *OPS["same-step"])
