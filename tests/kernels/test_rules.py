"""Every rule of kernels: a definition that breaks it is refused with class, function, line, and what to do instead."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from gymnasium.envs.registration import registry
from gymnasium.spaces import Box, Dict, Discrete, Space

import vecenv
from tests.kernels.defining import HEAD, accepted, imported, marked, refused, written
from vecenv._batch.layout import Layout
from vecenv.errors import ConfigError, ConfigTypeError, KernelError
from vecenv.kernel.language.define import check, kernel
from vecenv.kernel.language.fields import declare
from vecenv.kernel.language.found import Found
from vecenv.kernel.language.registry import GAMES, SHIPPED, WITH_AGENTS, find_kernel
from vecenv.kernel.language.rules import Rules
from vecenv.kernel.language.source import read_source

STEP = {
    # returns
    "no-return": ("s.x = 1.0  #!", "can end without a return"),
    "return-on-one-path": ("if action == 1:  #!\n    return 1.0, True", "without a return.*every path"),
    "return-in-a-for": ("for i in range(3):  #!\n    return 1.0, True", "without a return"),
    "return-after-break": (
        "while True:  #!\n    if action:\n        break\n    return 1.0, True",
        "without a return",
    ),
    "bare-return": ("return  #!", "returns 0 values; write return reward, terminated"),
    "bare-value": ("return 1.0  #!", "returns 1 value;"),
    "four-values": ("return s.x, 1.0, False, False  #!", "returns 4 values.*observe.*`info`"),
    "five-values": ("return s.x, 1.0, False, False, {}  #!", "returns 5 values"),
    "dict-for-info": ("return 1.0, False, {}  #!", "truncated is a dict; infos are fields declared in `info`"),
    "reward-none": ("return None, False  #!", "reward is None; it must be a number"),
    "swapped-returns": ("return s.flag, s.x  #!", "terminated is s.x; return reward, terminated, in this order"),
    "value-of-a-conditional": ("return (1.0, True) if action else (0.0, False)  #!", "returns 1 value"),
    # fields
    "unknown-field": ("s.cuont = 1  #!", "no field 'cuont'; did you mean 'count'.*fields: x, count"),
    "unknown-field-read": ("y = s.boards[0, 0]  #!", "no field 'boards'; did you mean 'board'"),
    "unknown-field-in-tuple": ("s.x, s.y = 1.0, 2.0  #!", "no field 'y'"),
    "none": ("s.x = None  #!", "'x' is float64, but is assigned None; .*bool field beside"),
    "float-to-int": ("s.count = 0.5  #!", "'count' is int64, but is assigned a float: 0.5; use int"),
    "float-added-to-int": ("s.count += 0.5  #!", "assigned a float: s.count \\+ 0.5"),
    "division-to-int": ("s.count = s.count / 2  #!", "use int\\(...\\) or //"),
    "divided-int": ("s.count /= 2  #!", "assigned a float"),
    "float-field-to-int": ("s.count = s.x  #!", "assigned a float: s.x"),
    "parameter-to-int": ("s.count = -p.speed  #!", "assigned a float: -p.speed"),
    "draw-to-int": ("s.count = rng.uniform(0.0, 9.0)  #!", "assigned a float"),
    "float-in-tuple": ("s.x, s.count = 1.0, 0.5  #!", "'count' is int64"),
    "float-in-conditional": ("s.count = 1 if action else 0.5  #!", "'count' is int64"),
    "int-to-bool": ("s.flag = 1  #!", "'flag' is bool, but is assigned a int: 1; use a comparison, or True"),
    "draw-to-bool": ("s.flag = rng.integers(2)  #!", "'flag' is bool"),
    "float-into-int-array": ("s.board[0, 0] = 0.5  #!", "'board' is int8, but is assigned a float"),
    "string": ('s.x = "left"  #!', "is assigned a str: 'left'"),
    "tuple": ("s.x = (1.0, 2.0)  #!", "assigned a tuple"),
    "number-with-index": ("s.x[0] = 1.0  #!", "s.x is a single number"),
    "index-out-of-range": ("s.order[5] = 1  #!", "index 5 is out of range: s.order has 5 elements"),
    "index-out-of-axis": ("s.board[0, 4] = 1  #!", "index 4 .* s.board has 4 elements along axis 1"),
    "index-out-of-chain": ("s.board[0][-5] = 1  #!", "index -5 is out of range"),
    "too-many-indices": ("s.order[0, 1] = 1  #!", "2 indices for s.order, which has 1 dimension"),
    "float-index": ("s.order[1.0] = 1  #!", "1.0 is no index of s.order"),
    "dict-style": ('s["x"] = 1.0  #!', "write s.x, not s\\['x'\\]"),
    "written-parameter": ("p.speed = 0.2  #!", "Params are read-only.*'speed'"),
    "written-parameter-array": ("p.moves[0] = 0.2  #!", "Params are read-only.*'moves'"),
    "unknown-parameter": ("y = p.sped  #!", "no parameter 'sped'; did you mean 'speed'.*parameters: speed, moves"),
    "replaced-state": ("s = 1  #!", "'s' is the state of the env and cannot be replaced"),
    "renamed-state": ("state = s  #!", "s is used by its fields, s.x, or passed on"),
    "renamed-rng": ("draw = rng.uniform  #!", "rng.uniform must be called"),
    "subscripted-number": ("s.x = action[0] * 1.0  #!", "action is a single number"),
    "other-attribute": ("action.done = True  #!", "action.done cannot be assigned; keep what changes in `state`"),
    # syntax
    "list-comprehension": ("y = len([i for i in range(3)])  #!", "a list is built"),
    "dict": ("y = {1: 2}  #!", "a dict is built"),
    "dict-comprehension": ("y = {i: i for i in range(3)}  #!", "a dict is built"),
    "set": ("y = {1, 2}  #!", "a set is built"),
    "generator": ("y = max(i for i in range(3))  #!", "write a for loop"),
    "f-string": ('y = f"{s.x}"  #!', "an f-string has no native form"),
    "string-local": ('y = "left"  #!', "the string 'left' has no native form"),
    "string-action": ('s.flag = action == "left"  #!', "compared with the string 'left'; actions are numbers"),
    "lambda": ("y = lambda: 1  #!", "a lambda has no native form; define a function of the module"),
    "nested-function": ("def inner():  #!\n    return 1", "cannot be defined inside"),
    "nested-class": ("class Inner:  #!\n    pass", "classes cannot be defined inside"),
    "try": ("try:  #!\n    s.x = 1.0\nexcept ValueError:\n    pass", "try has no native form"),
    "with": ("with open('f') as f:  #!\n    pass", "with has no native form"),
    "raise": ("raise ValueError  #!", "cannot raise; end the episode"),
    "import": ("import os  #!", "at the top of the module"),
    "global": ("global COUNT  #!\nCOUNT = 1", "keep what changes in `state`"),
    "del": ("del s.x  #!", "del has no native form"),
    "yield": ("yield 1  #!", "yield has no native form"),
    "match": ("match action:  #!\n    case 0:\n        s.x = 1.0", "write if and elif"),
    "starred": ("y = max(*p.moves)  #!", "write the values out"),
    "complex": ("y = 1j  #!", "complex numbers"),
    "huge": ("s.count = 9223372036854775808  #!", "64 bits"),
    "arguments-of-a-builtin": ("s.x = divmod(s.x)  #!", r"divmod\(\) takes 2 arguments in kernels, not 1"),
    "key-of-max": ("s.x = max(s.x, 1.0, key=abs)  #!", r"takes no argument key= in kernels"),
    "arguments-of-math": ("s.x = math.atan2(s.x)  #!", r"math.atan2\(\) takes 2 arguments in kernels, not 1"),
    "function-as-owner": ("s.x = uniform.low  #!", "is a function; it can be called"),
    # names
    "misspelt-local": ("speed = 1.0\ns.x = sped  #!", "no name 'sped'; did you mean 'speed'"),
    "misspelt-builtin": ("s.x = mx(1.0, s.x)  #!", "no name 'mx'; did you mean 'max'"),
    "field-without-s": ("s.x = count + 1.0  #!", "no name 'count'; did you mean s.count"),
    "parameter-without-p": ("s.x += speed  #!", "no name 'speed'; did you mean p.speed"),
    "name-of-the-class": ("observe(s, 1, p)  #!", "do not see the names of a class.*Wrong.observe"),
    "self": ("self.x = 1.0  #!", "cannot be assigned"),
    "self-read": ("s.x = self.x  #!", "no name 'self'; kernels have none: state is in s"),
    "no-such-function": ("s.x = math.sine(1.0)  #!", "module 'math' has no 'sine'; did you mean 'sin'"),
    "no-such-class-attribute": ("s.x = Wrong.Parms  #!", "class 'Wrong' has no 'Parms'"),
    "global-dict": ("s.x = CONFIG['x']  #!", "CONFIG has no 'x'; it has 0"),
    "global-object": ("s.x = THING.x  #!", "THING is a SimpleNamespace.*numbers, arrays and tuples"),
    "global-string": ("s.flag = MODE == 0  #!", "MODE is a str"),
    "global-written": ("ARRAY[0] = 1.0  #!", "ARRAY is a constant in native code"),
    "plain-enum": ("s.flag = action == Move.LEFT  #!", "Move.LEFT is a Move.*IntEnum"),
    "value-of-enum": ("s.flag = action == Turn.LEFT.value  #!", "write Turn.LEFT"),
    "function-as-value": ("s.x = 1.0 + abs  #!", "abs is a function; it can be called"),
    # calls
    "print": ("print(s.x)  #!", "print\\(\\) .*is given|print\\(\\) has no native form; put a breakpoint"),
    "sorted": ("y = sorted(s.order)  #!", "sorted\\(\\) has no native form; kernels allocate nothing"),
    "isinstance": ("s.flag = isinstance(action, int)  #!", "types are known beforehand"),
    "open": ("open(1)  #!", "open\\(\\) has no native form; there are: abs"),
    "exp": ("s.x = np.exp(s.x)  #!", "use math.exp: .*bit-equal"),
    "arctan2": ("s.x = np.arctan2(s.x, 1.0)  #!", "use math.atan2"),
    "fsum": ("s.x = math.fsum(p.moves)  #!", "math.fsum has no native form; write a for loop"),
    "factorial": ("s.count = math.factorial(3)  #!", "math.factorial has no native form"),
    "random": ("s.x = random.random()  #!", "not seeded with the env; use rng"),
    "randint": ("s.count = random.randint(0, 3)  #!", "not seeded with the env; use rng"),
    "np-random": ("s.x = np.random.rand()  #!", "not seeded with the env; use rng"),
    "default-rng": ("y = np.random.default_rng()  #!", "not seeded with the env; use rng"),
    "global-generator": ("s.x = STREAM.uniform()  #!", "STREAM is a Generator.*use rng"),
    "time": ("s.x = time.time()  #!", "knows no clock; count steps"),
    "method-of-array": ("s.board.fill(0)  #!", "s.board.fill\\(\\) has no native form; write s.board\\[:\\] = value"),
    "append": ("s.order.append(3)  #!", "keep a count in `state`"),
    "instance": ("s.x = CALLABLE(1.0)  #!", "CALLABLE\\(\\) has no native form"),
    "class": ("y = SimpleNamespace()  #!", "kernels build no objects"),
    "cached": ("s.x = cached(1.0)  #!", "cached\\(\\) has no native form"),
    "lambda-of-the-module": ("s.x = squared(1.0)  #!", "source of <lambda> cannot be read; define it by `def`"),
    "module": ("s.x = math(1.0)  #!", "it is a module"),
    "local-called": ("f = 1\ns.x = f(1.0)  #!", "f is no function of a module"),
    "field-called": ("s.x()  #!", "s.x is a field and cannot be called"),
    "rng-called": ("s.x = rng()  #!", "rng is the rng of the env and cannot be called"),
    "state-to-builtin": ("s.count = len(s)  #!", "len\\(\\) is given s, which is used by its fields"),
    # random numbers
    "gauss": ("s.x = rng.gauss(0.0, 1.0)  #!", "rng has no 'gauss' in kernels; use normal"),
    "gamma": ("s.x = rng.gamma(2.0)  #!", "no 'gamma' in kernels; add up rng.exponential.*there are: binomial, choice"),
    "lognormal": ("s.x = rng.lognormal(0.0, 1.0)  #!", "use math.exp\\(rng.normal\\(mean, sigma\\)\\)"),
    "randint-of-rng": ("s.count = rng.integer(3)  #!", "did you mean 'integers'"),
    "rng-fill": ("rng.fill_normal(s.order)  #!", "use vecenv.kernel.rng.fill_normal\\(rng, out\\)"),
    "permutation-of-number": ("permutation(rng, 5)  #!", "permutation\\(rng, out\\), not permutation\\(rng, 5\\)"),
    "shuffle-of-number": ("rng.shuffle(s.x)  #!", "writes into an array of `state`: .*not rng.shuffle\\(s.x\\)"),
    "shuffle-of-tuple": ("rng.shuffle((1, 2))  #!", "shuffle writes into an array of `state`"),
    "shuffle-of-params": ("rng.shuffle(p.moves)  #!", "shuffle writes into p.moves, which is read-only"),
    "shuffle-of-constant": ("shuffle(rng, ARRAY)  #!", "shuffle writes into ARRAY, which is read-only"),
    "size-of-permutation": ("permutation(rng, s.order, 3)  #!", "too many .*; it takes out"),
    "endpoint-by-position": ("s.count = rng.integers(0, 3, None, True)  #!", "too many .*takes low, high=None"),
    "dtype-of-draw": ("y = rng.integers(0, 3, size=3, dtype=np.int8)  #!", "'dtype'; in kernels it takes low, high"),
    "size-of-function": ("y = uniform(rng, 0.0, 1.0, size=3)  #!", "'size'; it draws one number.*rng.fill_unif"),
    "forgotten-stream": ("s.x = uniform(0.0, 1.0)  #!", "first argument of uniform is the stream"),
    "no-stream": ("s.x = numbers.normal()  #!", "normal\\(rng, ...\\)"),
    "tuple-as-number": ("s.x = rng.uniform((0.0, 1.0))  #!", "given \\(0.0, 1.0\\) as low, which is one number"),
    "never-assigned": ("if action > 0:\n    y = math.sqrt(y)  #!\n    s.x = y", "y has no value here"),
    "stream-as-number": ("s.x = rng.poisson(rng)  #!", "given the random stream as lam, which is one number"),
    "list-as-number": ("s.x = rng.normal([0.0])  #!", "given \\[0.0\\] as loc, which is one number"),
    "choice-of-nothing": ("y = rng.choice([])  #!", "rng.choice is given \\[\\], which is empty"),
    "choice-of-a-module": ("y = rng.choice(np, p=[0.5])  #!", "np is a module"),
    "sample-has-no-result": ("y = numbers.sample(rng, 9, out=s.order)\ns.count = y[0]  #!", "nothing"),
    "list-in-a-list": ("y = rng.choice([1, [2]])  #!", "2 values; it must be numbers and arrays"),
    "draw-to-int-2": ("s.count = rng.standard_normal()  #!", "assigned a float"),
    "draw-to-bool-2": ("s.flag = rng.poisson(2.0)  #!", "'flag' is bool"),
}  # fmt: skip
"""Bodies of `step`, and what must be said."""

GLOBALS = """
from numpy import zeros

CONFIG = {0: 1.0}
LIST = [1.0]
THING = SimpleNamespace(x=1.0)
MODE = "fast"
ARRAY = np.zeros(3)
STREAM = np.random.default_rng(0)
CALLABLE = functools.partial(abs)
squared = lambda x: x * x
COUNT = 0


@functools.lru_cache
def cached(x):
    return x


def same(function):
    return function


def logged(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


class Move(enum.Enum):
    LEFT = 0


class Turn(enum.IntEnum):
    LEFT = 0
"""


NO_RETURN_ADDED = {name for name, (_, words) in STEP.items() if "without a return" in words}


def test_a_builtin_that_somebody_has_replaced_is_still_one(monkeypatch):
    @vecenv.kernel("Wrong-v0", max_episode_steps=9)
    class Wrong:
        observation_space, action_space = Box(-1, 1, (1,)), Discrete(2)
        state = {"x": float}

        def reset(s, rng, p):
            s.x = 0.0

        def step(s, action, rng, p):
            print(s.x)
            return 1.0, False

        def observe(s, obs, p):
            obs[0] = s.x

    monkeypatch.setattr("builtins.print", lambda *args: None)
    with pytest.raises(KernelError, match=r"print\(\) has no native form"):
        vecenv.make(Wrong, 1)


def test_parameters_in_a_dict_are_refused_with_what_to_write():
    with pytest.raises(KernelError, match=r"params is not read; Params is a class.*write class Params: speed = 0.1"):

        @vecenv.kernel("Wrong-v0")
        class Wrong:
            observation_space, action_space = Box(-1, 1, (1,)), Discrete(2)
            state = {"x": float}
            params = {"speed": 0.5}

            def reset(s, rng, p):
                s.x = p.speed

            def step(s, action, rng, p):
                return 1.0, False

            def observe(s, obs, p):
                obs[0] = s.x


@pytest.mark.parametrize("case", STEP)
def test_a_wrong_step_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    body, words = STEP[case]
    end = "" if case in NO_RETURN_ADDED or body.startswith("return") else "\nreturn 0.0, False"
    method = "def step(s, action, rng, p):\n" + textwrap.indent(body + end, "    ")
    file = written(tmp_path, method, before=GLOBALS)
    error = refused(file)
    assert (error.kernel, error.function, error.file, error.line) == ("Wrong", "step", str(file), marked(file))
    assert f"Wrong.step, line {marked(file)} of {file}: " in str(error)
    assert re.search(words, str(error))


METHODS = {
    "self": ("def reset(self, rng, p):  #!\n    pass", "kernels have no self: write reset\\(s, rng, p\\)"),
    "no-parameters": ("def step(self, action):  #!\n    return 0.0, False", "defined as step\\(s, action, rng, p\\)"),
    "self-and-all": (
        "def step(self, s, action, rng, p):  #!\n    return 0.0, False",
        "defined as step\\(s, action, rng, p\\), without self",
    ),
    "defaults": ("def reset(s, rng, p=None):  #!\n    pass", "without self and defaults"),
    "star": ("def reset(s, *args):  #!\n    pass", "defined as reset\\(s, rng, p\\)"),
    "keyword-only": ("def reset(s, rng, *, p):  #!\n    pass", "defined as reset\\(s, rng, p\\)"),
    "swapped": (
        "def step(s, rng, action, p):  #!\n    return 0.0, False",
        "'rng' is given the action; the order is step\\(s, action, rng, p\\)",
    ),
    "decorated": ("@same  #!\ndef reset(s, rng, p):\n    pass", "@same has no effect on native code; .*plain `def`s"),
    "wrapped": ("@logged  #!\ndef reset(s, rng, p):\n    pass", "@logged has no effect on native code"),
    "class-method": ("def reset(cls, rng, p):  #!\n    pass", "kernels have no cls"),
    "reset-returns": ("def reset(s, rng, p):\n    return s.x  #!", "reset returns a value; .*assigns fields: s.x = "),
    "observe-returns": (
        "def observe(s, obs, p):\n    return np.array([s.x])  #!",
        "observe returns a value; it returns nothing and writes: obs\\[0\\] = ",
    ),
    "obs-replaced": ("def observe(s, obs, p):\n    obs = s.x  #!", "'obs' is the obs .*write into it: obs\\[:\\] = "),
    "obs-out-of-range": (
        "def observe(s, obs, p):\n    obs[2] = s.x  #!",
        "index 2 is out of range: obs has 2 elements",
    ),
    "obs-by-key": ("def observe(s, obs, p):\n    obs['x'] = s.x  #!", "'x' is no index of obs; an index is an int"),
    "obs-none": ("def observe(s, obs, p):\n    obs[0] = None  #!", "assigned None"),
    "mask-returned": ("def action_mask(s, mask, p):\n    return s.order  #!", "action_mask returns a value"),
    "mask-replaced": ("def action_mask(s, mask, p):\n    mask = s.order  #!", "'mask' is the mask"),
}


@pytest.mark.parametrize("case", METHODS)
def test_a_wrong_method_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    method, words = METHODS[case]
    file = written(tmp_path, method, before=GLOBALS)
    error = refused(file)
    name = method.partition("def ")[2].partition("(")[0]
    assert (error.kernel, error.function, error.file, error.line) == ("Wrong", name, str(file), marked(file))
    assert re.search(words, str(error))


NESTED = 'Dict({"pose": Dict({"x": Box(-1, 1), "angle": Discrete(4)}), "grid": Box(0, 1, (2, 2)), "n": Discrete(3)})'
LEAVES = {
    "unknown-key": ('obs["gird"][0, 0] = 1.0', "no 'gird'; did you mean 'grid'.*: obs\\['grid'\\], obs\\['n'\\]"),
    "unknown-inner-key": ('obs["pose"]["y"] = 1.0', "obs\\['pose'\\] has no 'y'.*obs\\['pose'\\]\\['x'\\]"),
    "array-replaced": ('obs["grid"] = 1.0', "obs\\['grid'\\] is an array; write into it: obs\\['grid'\\]\\[:\\] = "),
    "dict-replaced": ('obs["pose"] = 1.0', "obs\\['pose'\\] has parts; use obs\\['pose'\\]\\['angle'\\], obs"),
    "number-indexed": ('obs["n"][0] = 1', "obs\\['n'\\] is a single number"),
    "float-to-discrete": ('obs["n"] = 0.5', "obs\\['n'\\] is int64, but is assigned a float"),
    "index": ('obs["grid"][2, 0] = 1.0', "index 2 .*obs\\['grid'\\] has 2 elements along axis 0"),
    "by-attribute": ("obs.n = 1", "write obs\\['n'\\], not obs.n"),
    "not-written-out": ("for key in range(3):\n    obs[key] = 1", "a key of obs must be written out"),
}  # fmt: skip


@pytest.mark.parametrize("case", LEAVES)
def test_a_part_of_an_observation_that_is_not_there_is_refused(case: str, tmp_path: Path) -> None:
    body, words = LEAVES[case]
    *first, last = body.splitlines()
    method = "def observe(s, obs, p):\n" + textwrap.indent("\n".join([*first, last + "  #!"]), "    ")
    file = written(tmp_path, f"observation_space = {NESTED}", method)
    error = refused(file)
    assert (error.function, error.line) == ("observe", marked(file))
    assert re.search(words, str(error))


ACTIONS = {
    "unknown-key": ('s.x = action["sterr"][0]', 'Dict({"steer": Box(-1, 1), "gear": Discrete(3)})', "you mean 'steer'"),
    "position": ("s.count = action[2]", "Tuple((Discrete(2), Discrete(3)))", "no 2 .*: action\\[0\\], action\\[1\\]"),
    "written": ("action[0] = 0.0", "Box(-1, 1, (2,))", "action is read-only"),
    "index": ("s.x = action[2]", "Box(-1, 1, (2,))", "index 2 is out of range: action has 2 elements"),
    "number": ('s.count = action["gear"][0]', 'Dict({"gear": Discrete(3)})', "action\\['gear'\\] is a single number"),
    "attribute": ("s.count = action.gear", 'Dict({"gear": Discrete(3)})', "write action\\['gear'\\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", ACTIONS)
def test_a_part_of_an_action_that_is_not_there_is_refused(case: str, tmp_path: Path) -> None:
    body, space, words = ACTIONS[case]
    file = written(
        tmp_path, f"action_space = {space}", f"def step(s, action, rng, p):\n    {body}  #!\n    return 0.0, False"
    )
    error = refused(file)
    assert (error.function, error.line) == ("step", marked(file))
    assert re.search(words, str(error))


HELPERS = {
    "set": ("def helper(s):\n    y = {1}  #!", "helper(s)", "a set is built"),
    "field": ("def helper(state):\n    state.y = 1.0  #!", "helper(s)", "no field 'y'"),
    "type": ("def helper(a, state):\n    state.count = 0.5  #!", "helper(1, s)", "'count' is int64"),
    "parameter": ("def helper(q):\n    q.speed = 1.0  #!", "helper(p)", "read-only"),
    "stream": ("def helper(r):\n    return r.gauss()  #!", "helper(rng)", "use normal"),
    "name": ("def helper(x):\n    return xx  #!", "helper(1.0)", "no name 'xx'"),
    "numpy": ("def helper(x):\n    return np.exp(x)  #!", "helper(s.x)", "use math.exp"),
    "deep": ("def inner(x):\n    return np.sort(x)  #!\n\ndef helper(x):\n    inner(x)", "helper(s.x)", "sort"),
    "recursion": ("def helper(n):\n    return helper(n - 1)  #!", "helper(3)", "helper calls itself; .*write a loop"),
    "star": ("def helper(*values):  #!\n    return 1", "helper(1, 2)", "plain parameters"),
    "wrapped": (
        "def logged(f):\n    @functools.wraps(f)\n    def inner(x):\n        return f(x)\n    return inner\n\n"
        "@logged\ndef helper(x):  #!\n    return x",
        "helper(1.0)",
        "wrapped by a decorator",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HELPERS)
def test_a_wrong_helper_is_refused_by_its_own_name_and_line(case: str, tmp_path: Path) -> None:
    helper, call, words = HELPERS[case]
    file = written(tmp_path, f"def step(s, action, rng, p):\n    {call}\n    return 0.0, False", before=helper)
    error = refused(file)
    assert (error.kernel, error.function) == ("Wrong", "inner" if case == "deep" else "helper")
    assert (error.file, error.line) == (str(file), marked(file))
    assert re.search(words, str(error))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("helper(y=1.0)", r"helper\(x\) is given 'y'"),
        ("helper(1.0, x=1.0)", r"helper\(x\) is given 'x' twice"),
        ("helper()", r"helper\(x\) is given 0 arguments"),
        ("helper(1, 2)", r"helper\(x\) is given 2 arguments"),
    ],
)
def test_a_helper_that_is_called_wrongly_is_reported_where_it_is_called(call: str, words: str, tmp_path: Path) -> None:
    step = f"def step(s, action, rng, p):\n    {call}  #!\n    return 0.0, False"
    file = written(tmp_path, step, before="def helper(x):\n    return x\n")
    error = refused(file)
    assert (error.function, error.line) == ("step", marked(file))
    assert re.search(words, str(error))


def test_a_helper_in_another_file_is_reported_with_that_file(tmp_path: Path) -> None:
    other = tmp_path / "other_helpers.py"
    other.write_text("def helper(s):\n    s.nothing = 1\n")
    with imported(other):
        step = "def step(s, action, rng, p):\n    other_helpers.helper(s)\n    return 0.0, False"
        error = refused(written(tmp_path, step, before="import other_helpers"))
    assert (error.function, error.file, error.line) == ("helper", str(other), 2)


def test_a_helper_may_be_defined_below_the_class(tmp_path: Path) -> None:
    file = written(tmp_path, "def step(s, action, rng, p):\n    s.x = below(s.x)\n    return 0.0, False")
    file.write_text(file.read_text() + "\n\ndef below(x):\n    return x + 1.0\n")
    assert accepted(file, steps=3).state.x == 3.0


RIGHT = {
    "assert": 'assert s.x < 1e9, f"x is {s.x}"',
    "comment-string": '"a comment"\ns.x = 1.0',
    "annotation": 'y: "float" = 1.0\ns.x = y',
    "while-true": "while True:\n    s.count += 1\n    if s.count > 3:\n        break",
    "for-else": "for i in range(3):\n    s.count += i\nelse:\n    s.x = 1.0",
    "over-an-array": "for value in s.order:\n    s.count += value",
    "slices": "s.board[:] = 0\ns.board[1:, ::2] = 1\ns.board[...] = 2\ns.board[-1, -1] = 3",
    "row": "s.board[0][1] = 1",
    "tuple-assignment": "s.x, s.count = 1.0, 2\na, b = s.x, s.count\n[c, d] = a, b",
    "chain": "s.x = y = 1.0",
    "bool-to-number": "s.x = True\ns.count = s.x > 0\ns.flag = not s.flag\ns.flag |= s.x > 0",
    "int-to-float": "s.x = 1\ns.x += s.count",
    "floor-division": "s.count = s.count // 2\ns.count //= 2\ns.count %= 3",
    "numpy-scalars": "s.x = np.sqrt(2.0)\ns.count = int(np.int8(3))\ns.flag = np.isnan(s.x)",
    "constants": "s.x = math.pi + np.pi + TABLE[1] + PAIR[0]\ns.flag = action == Turn.LEFT",
    "class-constant": "s.x = Wrong.LENGTH",
    "draws": "s.x = rng.random() + uniform(rng, 0.0, 1.0) + rng.normal()\ns.count = rng.integers(0, 5)\n"
    "permutation(rng, s.order)\nshuffle(rng, s.order)\ns.x = rng.choice(TABLE)\ns.x = numbers.normal(rng, scale=2.0)",
    "distributions": "s.x = rng.standard_normal() + rng.exponential(2.0) + numbers.standard_exponential(rng)\n"
    "s.count = rng.poisson(3.0) + rng.binomial(5, 0.5) + rng.geometric(p=0.5) + rng.integers(1, 6, endpoint=True)",
    "choices": "s.count = rng.choice((1, 2)) + rng.choice([1, 2, 3], p=[0.5, 0.25, 0.25]) + choice(rng, 2, (1, 0))\n"
    "s.x = rng.choice(PAIR) + rng.choice(p.moves) + rng.choice((s.x, -s.x))\ns.flag = rng.choice((True, False))",
    "filled": "rng.shuffle(s.board)\nnumbers.fill_integers(rng, s.board, 0, 5)\nnumbers.sample(rng, 9, s.order)\n"
    "numbers.multinomial(rng, 9, (0.2, 0.2, 0.2, 0.2, 0.2), s.order)\nnumbers.fill_poisson(rng, s.order[1:], lam=2.0)\n"
    "numbers.fill_choice(rng, s.order, [1, 2])",
    "helper": "s.x = moved(s, p, rng)\nadd(s.order, 1)\nadd(s.order)",
    "info": "s.hits += 1",
    "builtins": "s.x = float(max(1, min(2, abs(-3)))) + pow(2.0, 2)\ns.count = int(round(s.x)) + len(s.order)\n"
    "for i, value in enumerate(s.order):\n    s.count += i * value",
    "parameter-array": "s.x = p.moves[0] + p.moves[5 % 2]",
}
RIGHT_GLOBALS = """
TABLE, PAIR = np.array([1.0, 2.0]), (1, 2.0)


class Turn(enum.IntEnum):
    LEFT = 0


def moved(s, p, rng):
    \"\"\"Helpers have docstrings.\"\"\"
    if s.flag:
        return 1.0
    return s.x + p.speed * rng.random()


def add(values, amount=2):
    for i in range(len(values)):
        values[i] += amount
"""


@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_is_not_refused(case: str, tmp_path: Path) -> None:
    method = "def step(s, action, rng, p):\n" + textwrap.indent(RIGHT[case] + "\nreturn 0.0, False", "    ")
    accepted(written(tmp_path, method, "LENGTH = 0.5", before=RIGHT_GLOBALS))


@pytest.mark.parametrize(
    "body",
    [
        "if action:\n    return 1.0, True\nelse:\n    return 0.0, False",
        "if action:\n    return 1.0, True\nelif s.flag:\n    return 0, False, True\nreturn 0.0, False",
        "while True:\n    if s.count > 2:\n        return 1.0, True\n    s.count += 1",
        "while True:\n    for i in range(3):\n        if i:\n            break\n    return 1.0, True",
    ],
)
def test_a_step_that_returns_on_every_path_is_not_refused(body: str, tmp_path: Path) -> None:
    accepted(written(tmp_path, "def step(s, action, rng, p):\n" + textwrap.indent(body, "    ")))


OURS = [id for id in SHIPPED if id in registry or id in GAMES]
"""Taxi has the id of the Gymnasium that is installed."""


@pytest.mark.parametrize("id", [*OURS, *WITH_AGENTS])
def test_our_own_kernels_obey_the_rules(id: str) -> None:
    """Which is not checked again by those who use them."""
    kernel = find_kernel(id)
    assert kernel is not None
    assert kernel.ships
    check(kernel)
    kernel.check_names()


DECLARED = {
    "list": ("state = ['x']", "state must be a dict of name: type"),
    "str": ("state = {'x': str}", "field 'x' is declared as str; native code holds numbers only"),
    "object": ("state = {'x': object}", "declared as object"),
    "class": ("state = {'x': SimpleNamespace}", "declared as SimpleNamespace"),
    "string": ("state = {'x': 'left'}", "declared as 'left'; declare a number type"),
    "none": ("state = {'x': None}", "declared as None; declare a number type"),
    "value": ("state = {'x': 0.0}", "declared as 0.0; that is a value: declare its type, float,"),
    "list-value": ("state = {'x': [0, 0, 0]}", "that is a value: declare its type, \\(int, 3\\),"),
    "array-value": ("state = {'x': np.zeros((2, 3))}", "declare its type, \\(float, \\(2, 3\\)\\)"),
    "nested": ("state = {'x': {'y': float}}", "declare a number type"),
    "flat-shape": ("state = {'x': (np.int8, 10, 10)}", "write \\(int8, \\(10, 10\\)\\)"),
    "zero-shape": ("state = {'x': (float, (3, 0))}", "or \\(type, shape\\)"),
    "negative-shape": ("state = {'x': (float, -1)}", "or \\(type, shape\\)"),
    "float-shape": ("state = {'x': (float, 2.0)}", "or \\(type, shape\\)"),
    "bool-shape": ("state = {'x': (float, True)}", "or \\(type, shape\\)"),
    "complex": ("state = {'x': complex}", "declared as complex"),
    "half": ("state = {'x': np.float16}", "declared as float16"),
    "abstract": ("state = {'x': np.integer}", "declared as integer"),
    "underscore": ("state = {'_x': float}", "'_x' is not a name"),
    "keyword": ("state = {'class': float}", "'class' is a word of Python"),
    "no-identifier": ("state = {'my x': float}", "'my x' is not a name"),
    "no-string": ("state = {1: float}", "1 is not a name"),
    "both": ("info = {'x': float}", "field 'x' is both in state and in info"),
    "info-string": ("info = {'text': str}", "info: field 'text' is declared as str"),
    "param-string": ("class Params:\n    mode = 'fast'", "parameter 'mode' is 'fast'; it must be a number"),
    "param-none": ("class Params:\n    mode = None", "parameter 'mode' is None"),
    "param-ragged": ("class Params:\n    mode = [[1], [1, 2]]", "parameter 'mode'"),
    "param-half": ("class Params:\n    mode = np.float16(1)", "parameter 'mode'"),
    "space": ("observation_space = (3,)", "observation_space must be a gymnasium Space"),
    "text": ("observation_space = Text(3)", "observation_space is Text.*native code can hold Box"),
    "text-inside": ("action_space = Dict({'a': Text(3)})", "action_space at 'a' is Text"),
    "no-observation-space": ("", "there is no observation_space"),
    "no-step": (
        "def setp(s, action, rng, p):\n    return 0.0, False",
        "no method step; define step\\(s, action, rng, p\\)",
    ),
    "param-dict": ("Params = {'speed': 1.0}", "Params is a class of default values.*got {'speed': 1.0}"),
    "param-instance": ("Params = SimpleNamespace(speed=1.0)", "Params is a class"),
    "param-bare": ("class Params:\n    speed: float", "'speed' has no default; write speed = 0.0"),
    "param-function": ("class Params:\n    def speed():\n        pass", "parameter 'speed' is <function"),
    "key-with-dot": ("action_space = Dict({'a.b': Discrete(2)})", "action_space has the key 'a.b'.*no dot"),
    "key-with-dot-inside": ("observation_space = Tuple((Dict({'a.b': Discrete(2)}),))", "has the key 'a.b'"),
    "empty-key": ("observation_space = Dict({'': Discrete(2)})", "has the key ''.*not empty"),
    "reset-none": ("reset = None", "reset is None; define reset\\(s, rng, p\\)"),
    "render-number": ("render = 3", "render is 3; define render\\(s, p\\)"),
    "metadata": ("metadata = None", "metadata must be a dict, got None"),
    "mask-of-box": (
        "action_space = Box(-1, 1)\n\ndef action_mask(s, mask, p):\n    mask[0] = 1",
        "action_mask needs a Discrete action space",
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_a_wrong_declaration_is_refused_by_name(case: str, tmp_path: Path) -> None:
    member, words = DECLARED[case]
    without = {"no-step": "step", "no-observation-space": "observation_space"}.get(case, "")
    file = written(tmp_path, *([member] if member else []), without=without)
    error = refused(file)
    assert (error.kernel, error.function) == ("Wrong", None)
    assert re.search(f"(?s)^Wrong: .*{words}", str(error))


@pytest.mark.parametrize(
    ("declared", "dtype", "shape"),
    [
        (float, "float64", ()),
        (int, "int64", ()),
        (bool, "bool", ()),
        (np.dtype("i1"), "int8", ()),
        (np.dtype(">f4"), "float32", ()),
        ((np.uint8, 3), "uint8", (3,)),
        ((np.uint8, np.int64(3)), "uint8", (3,)),
        ((float, [2, 3]), "float64", (2, 3)),
    ],
)
def test_what_a_declaration_means(declared: object, dtype: str, shape: tuple[int, ...]) -> None:
    field = declare("x", declared)
    assert (field.dtype, field.shape) == (np.dtype(dtype), shape)
    assert field.dtype.isnative


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("async def reset(s, rng, p):\n    pass", "it is async, but a kernel waits for nothing"),
        ("reset = lambda s, rng, p: None", "must be defined by `def`"),
        (
            "@functools.cache\ndef reset(s, rng, p):\n    pass",
            "wrapped by a decorator, which native code would not run",
        ),
        ("reset = functools.partial(print)", "it is functools.partial.*define it by a plain `def`: reset\\(s, rng, p"),
        ("reset = 3", "it is 3, which"),
        ("@property\ndef reset(self):\n    pass", "it is <property"),
        ("action_mask = 3", "it is 3, which native code would not run.*action_mask\\(s, mask, p"),
    ],
)
def test_a_method_that_is_no_plain_def_is_refused(method: str, words: str, tmp_path: Path) -> None:
    error = refused(written(tmp_path, method))
    assert (error.kernel, error.function) == ("Wrong", "action_mask" if "mask" in method else "reset")
    assert re.search(words, str(error))


def test_a_mask_that_is_none_is_no_mask(tmp_path: Path) -> None:
    assert "action_mask" not in accepted(written(tmp_path, "action_mask = None")).kernel.methods


SPACE_FUNCTIONS = {
    "raises": ("def action_space(p):\n    return Discrete(1 // 0)  #!", "ZeroDivisionError: integer division"),
    "parameter": ("def action_space(p):\n    return Discrete(p.size)  #!", "there is no field 'size'"),
    "library": ("def action_space(p):\n    return Discrete(-1)  #!", "AssertionError|ValueError"),
    "arguments": ("def action_space():\n    return Discrete(2)", "TypeError: .*positional argument"),
    "other": ("def action_space(p):\n    return 3", "it must return a gymnasium Space, got 3"),
}


@pytest.mark.parametrize("case", SPACE_FUNCTIONS)
def test_a_space_function_that_fails_is_reported_with_class_and_function(case: str, tmp_path: Path) -> None:
    member, words = SPACE_FUNCTIONS[case]
    file = written(tmp_path, member)
    error = refused(file)
    assert (error.kernel, error.function, error.line) == ("Wrong", "action_space", marked(file))
    assert re.search(words, str(error))


def test_parameters_are_inherited(tmp_path: Path) -> None:
    before = "class Base:\n    speed = 0.5\n    size: int = 3\n"
    env = accepted(written(tmp_path, "class Params(Base):\n    size = 4\n    moves = np.zeros(2)", before=before))
    assert list(env.kernel.params) == ["speed", "size", "moves"]
    assert (env.params.speed, env.params.size) == (0.5, 4)


POLICIES = {
    "returns": ("def policy(obs):\n    return 1 if obs[0] > 0 else 0", None),
    "writes": ("def policy(obs, action):\n    action[0] = 1", None),
    "helper": ("def policy(obs):\n    return sign(obs[1])\n\ndef sign(x):\n    return x > 0", None),
    "no-return": ("def policy(obs):\n    x = obs[0]  #!", "policy can end without a return; return the action"),
    "bare": ("def policy(obs):\n    return  #!", "a policy returns one number"),
    "tuple": ("def policy(obs):\n    return 1, 2  #!", "returns one number; .*policy\\(obs, action\\)"),
    "float": ("def policy(obs):\n    return 0.5  #!", "the action is int64, but 0.5 is a float"),
    "both": ("def policy(obs, action):\n    return 1  #!", "returns a value; it returns nothing and writes: action"),
    "index": ("def policy(obs):\n    return obs[2] > 0  #!", "index 2 is out of range: obs has 2 elements"),
    "action-index": ("def policy(obs, action):\n    action[1] = 1  #!", "index 1 is out of range"),
    "written-obs": ("def policy(obs):\n    obs[0] = 1.0  #!\n    return 1", "obs is read-only"),
    "replaced-obs": ("def policy(obs):\n    obs = 1.0  #!\n    return 1", "'obs' is the obs.*another name"),
    "float-written": ("def policy(obs, action):\n    action[0] = 0.5  #!", "action\\[0\\] is int64"),
    "set": ("def policy(obs):\n    return max({1, 2})  #!", "a set is built"),
    "name": ("def policy(obs):\n    return helo  #!", "no name 'helo'"),
    "numpy": ("def policy(obs):\n    return np.sort(obs)[0]  #!", "builds an array"),
    "star": ("def policy(*obs):  #!\n    return 1", "plain parameters"),
}  # fmt: skip


def check_policy(file: Path, space: Space) -> None:
    with imported(file) as module:
        source = read_source(module.policy)
    roles = dict(zip(source.parameters, ("obs", "action"), strict=False))
    leaves = {"obs": Layout(Box(-1.0, 1.0, (2,))).leaves, "action": Layout(space).leaves}
    rules = Rules("Walk", source, roles, {}, {}, leaves, method="policy")
    found = Found()
    rules.check(found)
    rules.check_names(found)
    found.raise_all()


@pytest.mark.parametrize("case", POLICIES)
def test_a_policy_obeys_the_rules(case: str, tmp_path: Path) -> None:
    text, words = POLICIES[case]
    file = tmp_path / f"policy_{case.replace('-', '_')}.py"
    file.write_text(f"import numpy as np\n\n\n{text}\n")
    if words is None:
        check_policy(file, Discrete(2))
        return
    with pytest.raises(KernelError, match=words) as caught:
        check_policy(file, Discrete(2))
    assert (caught.value.function, caught.value.line) == ("policy", marked(file))


def test_a_policy_writes_an_action_of_parts(tmp_path: Path) -> None:
    space = Dict({"gear": Discrete(3), "steer": Box(-1, 1)})
    file = tmp_path / "policy_of_parts.py"
    file.write_text("def policy(obs, action):\n    action['gear'] = 1\n    action['steer'][0] = 0.5\n")
    check_policy(file, space)
    file = tmp_path / "policy_without_parts.py"
    file.write_text("def policy(obs):\n    return 1\n")
    with pytest.raises(KernelError, match=r"has parts; define policy\(obs, action\) and write into action\['gear'\]"):
        check_policy(file, space)


def test_the_decorator_says_how_it_is_written() -> None:
    class Walk:
        pass

    with pytest.raises(ConfigTypeError, match=r"write @vecenv.kernel\('Walk-v0'\)"):
        kernel(Walk)  # type: ignore[arg-type]
    with pytest.raises(ConfigTypeError, match=r"write @vecenv.kernel\('Walk-v0'\)"):
        vecenv.kernel(Walk)  # type: ignore[operator]
    with pytest.raises(KernelError, match="is for classes"):
        kernel("Walk-v0")(lambda: None)  # type: ignore[type-var]
    with pytest.raises(KernelError, match=r"got 3; put reset, step and observe into a class"):
        kernel("Walk-v0")(3)  # type: ignore[type-var]
    for limit in (0, -1, 2.5, "ten"):
        with pytest.raises(ConfigError, match="max_episode_steps"):
            kernel("Walk-v0", max_episode_steps=limit)  # type: ignore[arg-type]


def test_a_static_method_is_what_a_method_is(tmp_path: Path) -> None:
    accepted(written(tmp_path, "@staticmethod\ndef reset(s, rng, p):\n    s.x = 1.0"))


def test_a_definition_without_a_file_is_refused() -> None:
    with pytest.raises(KernelError, match=r"Wrong\.reset: its source cannot be read"):
        exec(HEAD + _DYNAMIC, {"__name__": "nowhere"})


_DYNAMIC = """
@vecenv.kernel("Wrong-v0")
class Wrong:
    observation_space = action_space = Discrete(2)
    state = {}
    def reset(s, rng, p): pass
    def step(s, action, rng, p): return 0.0, False
    def observe(s, obs, p): pass
"""
