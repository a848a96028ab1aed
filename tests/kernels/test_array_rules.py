"""Mistakes with arrays: refused with file and line, in plain words, before any compiler starts."""

import re

import pytest

from tests.kernels.defining import imported, marked, written
from vecenv._batch.layout import Layout
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.lower.resolve import resolve

STATE = (
    'state = {"x": (float, 4), "y": (float, 3), "m": (float, (3, 4)), "c": (np.int8, 4), "q": (bool, 4), "n": int, '
    '"a": float, "u": (np.uint8, (3, 4)), "flag": bool}'
)
REFUSED = {
    "shapes": ("s.x = s.x + s.y  #!", r"shapes \(4,\) and \(3,\) do not fit together"),
    "shape-of-a-field": ("s.y = s.x  #!", r"shape \(4,\) does not fit into one of shape \(3,\)"),
    "shape-of-a-part": ("s.m[0] = s.y  #!", "does not fit"),
    "float-into-ints": ("s.c = s.x  #!", "int8 array.*is assigned a float64 array.*astype"),
    "float-added-to-ints": ("s.c += 0.5  #!", "is assigned a float"),
    "int-into-bools": ("s.q = s.c  #!", "a bool array is assigned.*comparison"),
    "iterator-for-a-range": ("for i in range(enumerate(s.x)):  #!\n    s.a = 1.0", r"range\(\) is given an iterator"),
    "array-for-a-number": ("s.a = s.x  #!", "a number is assigned a float64 array.*take one element"),
    "array-for-an-element": ("s.x[0] = s.y  #!", "one element is assigned a float64 array"),
    "truth": ("if s.x > 0:  #!\n    s.n = 1", "neither true nor false; use np.any"),
    "and": ("s.flag = s.x.any() and s.q  #!", "neither true nor false"),
    "not": ("s.flag = not s.q  #!", "neither true nor false"),
    "compared-twice": ("s.q = 0 < s.x < 1  #!", r"\(a < x\) & \(x < b\)"),
    "exp": ("s.x = np.exp(s.x)  #!", "use math.exp"),
    "power": ("s.x = s.x ** 3  #!", r"write x \* x"),
    "power-of-array": ("s.x = 2 ** s.x  #!", r"write x \* x"),
    "math": ("s.a = math.sin(s.x)  #!", "math.sin is of one number"),
    "shift": ("s.c = s.c << 1  #!", "multiply or divide by a power of two"),
    "bits-of-floats": ("s.x = s.x & 1  #!", "of bools and ints"),
    "bools-subtracted": ("y = s.q - s.q  #!", "no meaning in NumPy"),
    "invert-bool": ("s.n = ~s.flag  #!", "write not x"),
    "constant-too-large": ("y = s.c + 300  #!", "300 does not fit int8"),
    "unknown-shape": ("y = np.zeros(s.n)  #!", "must be known when the kernel is compiled"),
    "unknown-method": ("y = s.x.std()  #!", "no native form; write a for loop"),
    "unknown-attribute": ("y = s.x.flags  #!", "arrays have no 'flags'"),
    "unknown-argument": ("y = s.x.sum(keepdims=True)  #!", "sum: .*keepdims.*takes a, axis"),
    "wrong-axis": ("y = s.m.sum(axis=2)  #!", "axis must be a constant from 0 to 1"),
    "dtype": ("y = np.zeros(3, np.float16)  #!", "up to 64 bits"),
    "index-out-of-range": ("y = np.zeros(3)\ny[3] = 1.0  #!", "index 3 is out of range"),
    "float-index": ("i = s.a\ns.n = s.c[i]  #!", "is a float and no index"),
    "too-many-indices": ("y = np.zeros(3)\ny[0, 1] = 1.0  #!", "2 indices for a float64 array"),
    "mask-of-another-shape": ("y = s.x[s.y > 0]  #!", "a mask must have the shape"),
    "mask-and-slice": ("y = s.m[s.y > 0, :]  #!", "beside a slice"),
    "float-places": ("y = s.x[s.y]  #!", "an index is an int"),
    "two-kinds": (
        "y = np.zeros(3)\nif s.n:\n    y = 1.0\ns.a = y[0]  #!",
        "on one path.*use two variables",
    ),
    "two-shapes": (
        "y = np.zeros(3)\nif s.n:\n    y = np.zeros(4)\ns.a = y.sum()  #!",
        "on one path.*use two variables",
    ),
    "kept-array": (
        "best = np.zeros(4)\nfor i in range(3):\n    d = s.x * i  #!\n    if d[0] > 0:\n        best = d\ns.x = best",
        r"best may be the array that d was in the turn before.*best = d.copy\(\)",
    ),
    "kept-turned-array": (
        "best = s.m.copy()\nfor i in range(2):\n    d = np.rot90(s.m, 2)  #!\n    if i:\n        best = d\ns.m = best",
        "best may be the array that d was in the turn before",
    ),
    "number-method": ("s.a = s.n.sum()  #!", "a method of arrays"),
    "builtin-max": ("y = max(s.x, s.x)  #!", "use np.maximum"),
    "builtin-sum": ("s.a = sum(s.x)  #!", "use np.sum"),
    "max-of-rows": ("s.a = max(s.m)  #!", "use np.max"),
    "matmul": ("y = s.m @ s.m  #!", "cannot be multiplied"),
    "too-much": ("y = np.zeros((300, 300))  #!", "local arrays take .* bytes.*declare large ones"),
    "lost-write": ("(s.x + 1)[0:2] = 1.0  #!", "is lost|cannot"),
    "ravel": ("y = s.m.ravel()  #!\ny[0] = 1.0", r"write .flatten\(\)"),
    "unsigned-sum": ("y = s.u.sum(axis=0)  #!", "use .astype"),
    "sqrt-of-bytes": ("y = np.sqrt(s.c)  #!", "use .astype"),
    "floor-of-ints": ("y = np.floor(s.c)  #!", "leave it out"),
    "int-of-array": ("s.n = int(s.x)  #!", "take one element"),
    # numbers
    "float-to-int-field": (
        "v = s.a * 2\ns.n = v  #!",
        r"field 'n' is int64, but is assigned a float; use int\(...\) or //",
    ),
    "float-to-int-element": ("v = s.a\ns.c[0] = v  #!", "an element is int8, but is assigned a float; use int"),
    "int-to-bool-field": ("v = s.n\ns.flag = v  #!", "field 'flag' is bool, but is assigned an int; use a comparison"),
    "tuple-to-field": ("v = 1, 2\ns.n = v  #!", "is assigned 2 values; it must be a number|one element"),
    "nothing-to-field": ("s.n = rng.shuffle(s.c)  #!", "is assigned nothing; a field always holds a number"),
    "sum-of-nothing": ("v = rng.shuffle(s.c)\ns.n = v + 1  #!", "this computes with nothing"),
    "tuple-times-number": ("v = (1, 2)\nw = v * 2  #!", "2 values at once; .*np.array"),
    "two-kinds-of-numbers": ("v = 1\nif s.n:\n    v = (1, 2)\nw = v  #!", "on one path.*use two variables"),
    "either-kind": ("v = (1, 2) if s.n else 3  #!", "make both alike"),
    "index-of-number": ("v = s.n\ns.a = v[0]  #!", "an index is used on an int; it must be an array"),
    "len-of-number": ("v = s.n\ns.n = len(v)  #!", r"len\(\) is given an int"),
    "in-a-range": ("if s.n in range(3):  #!\n    s.n += 1", "write low <= x < high"),
    "loop-over-number": ("v = s.n\nfor i in v:  #!\n    s.n += i", "a loop runs over an int"),
    "negative-power": ("s.a = s.n ** -1  #!", r"use float\(x\) \*\* n"),
    "range-of-float": ("v = s.a\nfor w in range(v):  #!\n    s.a = w", "range.* is given a float; it counts with ints"),
    "range-of-tuple": ("v = (1, 2)\nfor w in range(v):  #!\n    s.a = w", "range.* is given 2 values"),
    "shape-of-number": ("v = s.a\ns.n = v.shape[0]  #!", "asks a float for its 'shape'; only arrays have shape"),
    "truth-of-tuple": ("v = (1, 2)\nif v:  #!\n    s.n = 1", "2 values are neither true nor false"),
    "compared-tuples": ("v = (1, 2)\nif v == s.n:  #!\n    s.n = 1", "are compared; compare numbers, one by one"),
    "float-bound": ("v = s.x[s.a :]  #!", "ends at a float; its ends are ints"),
    "where-of-two": ("v = np.where(s.x > 0, 1)  #!", "a condition, or a condition and two values"),
    "mixed-tuple": (
        "v = (1, 0.5)\nfor w in range(2):\n    s.a = v[w]  #!",
        "make all of them floats: write 1.0, not 1",
    ),
    "loop-over-mixed": ("for w in (1, True):  #!\n    s.a = w", "of different types"),
    "empty-tuple": ("for w in ():  #!\n    s.a = w", "empty tuple"),
    "tuple-by-array": ("v = (1, 2)\nw = v[s.c]  #!", "one index, an int"),
    "end-of-tuple": ("v = (1, 2)\nw = v[2]  #!", "index 2 is out of range: there are 2 values"),
    "unpacked-number": ("v, w = s.n  #!", "several variables are assigned an int"),
    "zip-of-number": ("for v, w in zip(s.x, s.n):  #!\n    s.a = v", r"zip\(\) is given an int"),
    "math-of-tuple": ("v = (1, 2)\ns.a = math.sin(v)  #!", "2 values at once"),
    "array-as-mean": ("s.a = rng.normal(s.x, 1.0)  #!", "as loc, which is one number"),
    "float-as-weights": ("s.a = rng.choice(s.x, p=s.a)  #!", "one weight per option"),
    "out-of-another-type": ("rng.random(out=s.c)  #!", "an array of float64, as in NumPy; use fill_random"),
    "floats-into-ints": ("numbers.fill_normal(rng, s.c)  #!", "fill_normal writes floats into .* declare it as float"),
    "sample-of-floats": ("numbers.sample(rng, 9, s.x)  #!", "give it an array of ints"),
}
HELPERS = {
    "mixed": (
        "def helper(x, n):  #!\n    if n:\n        return x\n    return x + 1",
        "y = helper(s.x, s.n)",
        "return a copy",
    ),
    "shapes": ("def helper(x, y):\n    return x * y  #!", "y = helper(s.x, s.y)", "do not fit together"),
}


def resolved(file):
    with imported(file) as module:
        kernel = kernel_of(module.Wrong)
        return resolve(kernel, *map(Layout, kernel.spaces(kernel.record(kernel.parameters({}, 1)))))


def indented(text):
    return "\n".join(f"    {line}" for line in text.splitlines())


def refused(file):
    with pytest.raises(KernelError) as caught:
        resolved(file)
    return caught.value


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_its_line(case, tmp_path):
    body, words = REFUSED[case]
    step = f"def step(s, action, rng, p):\n{indented(body)}\n    return 0.0, False"
    file = written(tmp_path, STATE, step, "def reset(s, rng, p):\n    pass", "def observe(s, obs, p):\n    pass")
    error = refused(file)
    assert error.function == "step"
    assert error.line == marked(file) or case == "too-much"
    assert re.search(words, str(error)), str(error)


@pytest.mark.parametrize("case", HELPERS)
def test_a_mistake_in_a_helper_is_refused_with_its_own_line(case, tmp_path):
    helper, body, words = HELPERS[case]
    step = f"def step(s, action, rng, p):\n{indented(body)}\n    return 0.0, False"
    reset, observe = "def reset(s, rng, p):\n    pass", "def observe(s, obs, p):\n    pass"
    error = refused(written(tmp_path, STATE, step, reset, observe, before=helper))
    assert error.function == "helper"
    assert re.search(words, str(error)), str(error)
