"""Small things of the language: native code, the checked mode and plain Python compute the same bits."""

import itertools
import math
import re
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import vecenv
from tests.kernels import small_cases
from tests.kernels.defining import imported, marked, written
from tests.kernels.emitted import EmittedEnv
from tests.kernels.test_array_rules import indented, refused
from vecenv.errors import KernelError
from vecenv.kernel import Queue, kernel_of
from vecenv.kernel.language.fields import FieldError
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.rng import Stream

EVERY = [*small_cases.CASES, *small_cases.NARROW_CASES]
STEPS = 12
STATE = f'state = {{"x": (float, 4), "b": (np.int8, (3, 4)), "out": (float, {len(EVERY)})}}'
RESET = "def reset(s, rng, p):\n    for i in range(4):\n        s.x[i] = rng.uniform(-1.0, 1.0)"
OBSERVE = "def observe(s, obs, p):\n    pass"


def kernel_file(path):
    """A kernel whose step runs every case and notes what it returns."""
    calls = [
        f"s.b[:] = 0\ns.out[{place}] = small_cases.{case.__name__}(s, action, rng)" for place, case in enumerate(EVERY)
    ]
    body = indented("\n".join(["s.x *= 1.25", *calls]))
    step = f"def step(s, action, rng, p):\n{body}\n    return s.out[0], False"
    return written(path, STATE, RESET, step, OBSERVE, before="from tests.kernels import small_cases")


def differing(one, other):
    return [case.__name__ for case, a, b in zip(EVERY, one, other, strict=True) if a.tobytes() != b.tobytes()]


def by_python(kernel, seed):
    """What every case returns in each step in the checked mode."""
    env = KernelEnv(kernel)
    env.reset(seed=seed)
    results = []
    for step in range(STEPS):
        env.step(step % 3)
        results.append(np.array(env.state.out))
    return results


def test_cases_in_the_checked_mode_are_those_of_plain_python(tmp_path):
    with imported(kernel_file(tmp_path)) as module:
        found = by_python(kernel_of(module.Wrong), seed=5)
    rng = Stream(gymnasium.utils.seeding.np_random(5)[0].bit_generator)
    x = np.array([rng.uniform(-1.0, 1.0) for _ in range(4)])
    for step in range(STEPS):
        x *= 1.25
        wanted = [case(SimpleNamespace(x=x, b=np.zeros((3, 4), np.int8)), step % 3, rng) for case in small_cases.CASES]
        plain = np.array([*wanted, *found[step][len(wanted) :]], np.float64)
        assert not differing(found[step], plain)


def test_cases_as_loops_are_those_of_the_checked_mode(tmp_path):
    with imported(kernel_file(tmp_path)) as module:
        kernel = kernel_of(module.Wrong)
        wanted, loops = by_python(kernel, seed=3), EmittedEnv(kernel)
        loops.reset(seed=3)
        for step in range(STEPS):
            loops.step(step % 3)
            assert not differing(wanted[step], loops.state["out"])


@pytest.mark.timeout(300)
def test_cases_in_native_code_are_those_of_the_checked_mode(tmp_path):
    with imported(kernel_file(tmp_path)) as module:
        kernel = kernel_of(module.Wrong)
        envs = vecenv.make(module.Wrong, 3, engine="compiled", workers=1)
        envs.reset(seed=[1, 2, 3])
        wanted = [by_python(kernel, seed) for seed in (1, 2, 3)]
        for step in range(STEPS):
            envs.step(np.full(3, step % 3))
            for row in range(3):
                assert not differing(wanted[row][step], envs.state.out[row])
        envs.close()


# --- hypot -----------------------------------------------------------------------------------------------------------


def test_hypot_has_the_bits_of_pythons():
    from vecenv.kernel.numba.math import _length

    generator = np.random.default_rng(0)
    numbers = generator.uniform(-1.0, 1.0, (20_000, 3)) * 10.0 ** generator.uniform(-5, 5, (20_000, 3))
    numbers[:5000] *= 10.0 ** generator.integers(-290, 290, (5000, 1))
    special = [0.0, -0.0, 1.0, 3.0, 4.0, 1e-310, 5e-324, 2.0**-1022, 1.7e308, 2.0**1023, math.inf, -math.inf, math.nan]
    for x, y in itertools.product(special, special):
        assert same_bits(_length(x, y, 0.0), math.hypot(x, y)), (x, y)
    for x, y, z in numbers.tolist():
        assert _length(x, y, 0.0) == math.hypot(x, y), (x, y)
        assert _length(x, y, z) == math.hypot(x, y, z), (x, y, z)


def same_bits(one, other):
    return one.hex() == other.hex()


# --- queues ----------------------------------------------------------------------------------------------------------


def test_a_queue_in_plain_python():
    queue = Queue(np.int8, 3)
    for value in (1, 2, 3):
        queue.append(value)
    with pytest.raises(FieldError, match="full: its capacity is 3"):
        queue.append(4)
    assert (queue.popleft(), queue.pop(), len(queue), queue[0], 2 in queue, list(queue)) == (1, 3, 1, 2, True, [2])
    with pytest.raises(FieldError, match="300 does not fit"):
        queue.append(300)
    with pytest.raises(FieldError, match="use int"):
        queue.append(0.5)
    queue.clear()
    with pytest.raises(IndexError, match="empty"):
        queue.popleft()
    pairs = Queue((float, 2), 2)
    pairs.append((1, 2))
    assert pairs.pop() == (1.0, 2.0)
    with pytest.raises(FieldError, match="a tuple of 2 numbers"):
        pairs.append(1.0)
    with pytest.raises(FieldError, match="capacity of a Queue must be an int"):
        Queue(int, 0)


BEYOND = """
def step(s, action, rng, p):
    line = Queue(int, 3)
    for i in range(5):
        line.append(i + 1)  #!
    s.out[0] = len(line)
    s.out[1] = line[7] + 10 * line[-9]
    s.out[2] = line.popleft() + 10 * line.popleft()
    line.append(8)
    line.append(9)
    line.append(10)
    s.out[3] = line[0] + 10 * line[1] + 100 * line[2]
    line.clear()
    s.out[4] = line.pop() + line.popleft() + len(line)
    return 0.0, False
"""


def test_native_code_stays_within_a_queue_and_python_names_its_capacity(tmp_path):
    file = written(tmp_path, STATE, RESET, BEYOND, OBSERVE, before="from vecenv.kernel import Queue")
    with imported(file) as module:
        kernel = kernel_of(module.Wrong)
        python, loops = KernelEnv(kernel), EmittedEnv(kernel)  # NumPy raises where native code would leave an array
        python.reset(seed=0)
        with pytest.raises(KernelError, match="its capacity is 3") as caught:
            python.step(0)
        assert caught.value.line == marked(file)
        loops.reset(seed=0)
        loops.step(0)
        assert loops.state["out"][:5].tolist() == [3.0, 13.0, 21.0, 983.0, 0.0]


# --- what is refused -------------------------------------------------------------------------------------------------

QUEUE, ITEMS = "q = Queue(int, 2)\n", "xs = [1]\nxs.append(2)\n"
REFUSED = {
    "second-name": (QUEUE + "r = q  #!", "q is a Queue; it has append, .*popleft, len.*no second name"),
    "arithmetic": (QUEUE + "y = q + 1  #!", "no second name or other use"),
    "comparison": (ITEMS + "y = xs == 1  #!", "xs is a list; it has append, pop, clear, len"),
    "two-lists": ("a, b = [], []\na.append(1)  #!", "in a line of its own: a = "),
    "grows-in-while": (
        "xs = [0]\nwhile xs[-1] < 5:\n    xs.append(xs[-1] + 1)  #!",
        r"grows in a loop, .* from vecenv.kernel import Queue, and make it xs = Queue\(int, capacity\)",
    ),
    "grows-in-for": ("xs = []\nfor i in range(s.n):\n    xs.append((i, 0.5))  #!", r"Queue\(\(float, 2\), capacity\)"),
    "grows-by-its-length": (
        "xs = [0]\nfor i in range(len(xs)):\n    xs.append(i)  #!",
        r"grows in a loop, .* xs = Queue\(int, capacity\)",
    ),
    "list-for-a-helper": (ITEMS + "push(xs, 1)  #!", r"cannot be passed on; make it a queue: xs = Queue\(int, cap"),
    "float-into-ints": (QUEUE + "q.append(0.5)  #!", "a Queue of int64 and is given a float; use int"),
    "tuple-for-a-number": (QUEUE + "q.append((1, 2))  #!", "given 2 values as an item, and its items are an int"),
    "array-as-item": ("xs = []\nxs.append(s.x)  #!", "lists and queues hold numbers, and tuples of numbers"),
    "unknown-capacity": ("q = Queue(int, s.n)  #!", "must be known when the kernel is compiled"),
    "no-capacity": ("q = Queue(int)  #!", r"Queue\(dtype, capacity\)"),
    "popleft-of-a-list": (ITEMS + "xs.popleft()  #!", r"use pop\(0\), or a Queue"),
    "pop-in-the-middle": (ITEMS + "xs.pop(1)  #!", r"write xs.pop\(\), or pop\(0\)"),
    "extend": (ITEMS + "xs.extend([1, 2])  #!", r"append the values one by one: xs.append\(item\)"),
    "insert": (ITEMS + "xs.insert(0, 1)  #!", "lists have append, pop"),
    "added-to": (ITEMS + "xs += [3]  #!", r"xs.append\(item\)"),
    "changed-in-its-loop": (ITEMS + "for x in xs:\n    xs.append(x)  #!", "changes while this loop runs over it"),
    "slice": (ITEMS + "y = xs[1:]  #!", "take one item by an int"),
    "no-name": ("s.n = len(legal(s.b))  #!", "give the list or queue a name first"),
    "no-name-in-brackets": ("s.n = sum([i for i in range(3)])  #!", "a list is built here; give it a name first"),
    "number-later": (ITEMS + "xs = 5  #!", "xs is a list at another place; use two variables"),
    "append-to-an-array": ("y = np.zeros(3)\ny.append(1)  #!", r"write y\[count\] = value"),
    "append-to-a-number": ("y = 3\ny.append(1)  #!", "a method of lists and queues, and y is an int"),
    "taken-in-a-chain": (ITEMS + "y = 0 < action < xs.pop()  #!", "assign it to a variable first"),
    "max-of-a-queue": (QUEUE + "s.n = max(q)  #!", "write a for loop"),
    "key-with-effects": ("y = FORCE[rng.integers(2)]  #!", "assign the key of FORCE to a variable first"),
    "strings-as-keys": ("y = NAMED[s.n]  #!", "the keys of NAMED are strings"),
    "no-such-key": ("y = FORCE[7]  #!", "FORCE has no 7; it has 0, 1"),
    "dict-as-a-value": ("y = FORCE  #!", r"TABLE\[key\], TABLE.get\(key, default\), len\(\), `in`"),
    "set-as-a-value": ("for x in SPECIAL:  #!\n    s.n += x", "`x in SPECIAL`|x in SET"),
    "reversed-with-a-step": ("for i in reversed(range(0, s.n, 2)):  #!\n    s.n += i", "count the other way"),
    "hypot-of-one": ("s.a = math.hypot(s.a)  #!", "two or three numbers"),
    "default-none": ("s.a = optional(s.a)  #!", "is None, which is no number"),
    "ints-and-floats": ("place = (1, 0.5)\ns.a = place[s.n]  #!", "ints and floats.*write 1.0"),
}
BEFORE = """
from vecenv.kernel import Queue

FORCE = {0: -1.0, 1: 1.0}
NAMED = {"up": 1}
SPECIAL = {1, 2}

def legal(board):
    moves = []
    for c in range(4):
        moves.append(c)
    return moves

def push(queue, value):
    queue.append(value)

def optional(x, y=None):
    return x
"""
FIELDS = 'state = {"x": (float, 4), "b": (np.int8, (3, 4)), "n": int, "a": float}'


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_its_line_and_what_to_write(case, tmp_path):
    body, words = REFUSED[case]
    step = f"def step(s, action, rng, p):\n{indented(body)}\n    return 0.0, False"
    file = written(tmp_path, FIELDS, step, "def reset(s, rng, p):\n    pass", OBSERVE, before=BEFORE)
    error = refused(file)
    assert re.search(words, str(error)), str(error)
    lines = [one.line for one in error.errors]
    assert marked(file) in lines or case in ("default-none", "grows-by-its-length")
