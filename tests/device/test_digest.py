"""Texts of C++ are kept by a hash of what they are made from: other text, values, spaces or files have another hash."""

import ast
import inspect
import itertools
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import vecenv
from tests.kernels.defining import imported
from tests.kernels.shipped import SHIPPED
from vecenv._batch.layout import Layout
from vecenv.engines.device.engine import DeviceEngine
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.backend import load_kernel
from vecenv.kernel.cpp import backend
from vecenv.kernel.language import digest, source
from vecenv.kernel.language.digest import compiler_files, digest_of
from vecenv.kernel.language.registry import find_kernel

KERNEL = """
import enum
import math
from typing import Optional
import numpy as np
import vecenv
from gymnasium import spaces

SPEED = 2
TABLE = np.array([1.0, 2.0])
NAMES = {"far": 3}
STEPS = (1, (2.0, True))

class Settings:
    class Inner:
        limit = 7

class Kind(enum.IntEnum):
    near = 1

def inner(x: Optional[float]) -> Optional[float]:  # a hint has no hash, and needs none
    return x + 1

def helper(x, by=1):
    return inner(x) * by

@vecenv.kernel("Digest-v0")
class Digest:
    observation_space = spaces.Box(-9, 9, (1,), np.float64)
    action_space = spaces.Discrete(2)
    state = {"x": float}

    class Params:
        gain = 1.0

    def reset(s, rng, p):
        s.x = 0.0

    def step(s, action, rng, p):
        s.x += helper(action) * SPEED + TABLE[0] + NAMES["far"] + STEPS[0] + Settings.Inner.limit + Kind.near + p.gain
        s.x += math.sqrt(4.0) + np.abs(-1.0)
        return s.x, s.x > 1e9

    def observe(s, obs, p):
        obs[0] = s.x
"""
CHANGES = {
    "a constant": ("SPEED = 2", "SPEED = 3"),
    "the type of a constant": ("SPEED = 2", "SPEED = 2.0"),
    "an element of an array": ("[1.0, 2.0]", "[1.0, 2.5]"),
    "the dtype of an array": ("[1.0, 2.0]", "[1, 2]"),
    "a value of a dict": ('"far": 3', '"far": 4'),
    "a value deep in a tuple": ("(2.0, True)", "(2.0, False)"),
    "an attribute of a class in a class": ("limit = 7", "limit = 8"),
    "a member of an enum": ("near = 1", "near = 2"),
    "a helper of a helper": ("return x + 1", "return x + 2"),
    "a default of a helper": ("by=1", "by=2"),
    "a method": ("s.x = 0.0", "s.x = 1.0"),
    "the dtype of a field": ('"x": float', '"x": np.float32'),
    "a space": ("spaces.Discrete(2)", "spaces.Discrete(3)"),
    "the dtype of a parameter": ("gain = 1.0", "gain = 1"),
    "a function of NumPy": ("np.abs(-1.0)", "np.sign(-1.0)"),
    "what a name stands for": ("import math\n", "import numpy as math\n"),
}  # fmt: skip


def hash_of(definition, *more):
    kernel = kernel_of(definition)
    return digest_of(kernel, map(Layout, kernel.spaces(kernel.record(kernel.parameters({}, 1)))), {}, *more)


@pytest.fixture
def defined(tmp_path):
    folders = (tmp_path / str(number) for number in itertools.count())

    def define(text):
        path = next(folders) / "digest.py"  # bytecode of another text, as old and as long, would be taken for its own
        path.parent.mkdir()
        path.write_text(text)
        with imported(path) as module:
            return module

    return define


@pytest.mark.parametrize("change", CHANGES)
def test_another_program_has_another_hash_and_the_same_the_same(change, defined):
    before, after = CHANGES[change]
    assert before in KERNEL
    original, again = hash_of(defined(KERNEL).Digest), hash_of(defined(KERNEL).Digest)
    assert original is not None
    assert original == again
    assert hash_of(defined(KERNEL.replace(before, after)).Digest) not in (None, original)


def test_every_part_of_vecenv_that_the_compiler_imports_is_hashed():
    package = Path(vecenv.__file__).parent
    hashed = {path.relative_to(package).parts[0].removesuffix(".py") for path in compiler_files()}
    imported = {
        name
        for path in (package / "kernel").rglob("*.py")
        for name in re.findall(r"^ *(?:from|import) vecenv\.(\w+)", path.read_text(), re.MULTILINE)
    }
    assert {"_batch", "kernel"} <= imported <= hashed


def test_a_value_that_changes_while_a_kernel_is_lowered_leaves_no_wrong_text(monkeypatch, defined):
    kernel = kernel_of(defined(KERNEL).Digest)
    layouts = [Layout(space) for space in kernel.spaces(kernel.record(kernel.parameters({}, 1)))]
    table, stored = kernel.methods["step"].follow(("TABLE",)), []

    def lower_and_change(*args, **kwargs):
        code = load_kernel(*args, **kwargs)
        table[0] = 7.0
        return code

    monkeypatch.setattr(backend, "load_kernel", lower_and_change)
    monkeypatch.setattr(backend.cache, "find", lambda key: None)
    monkeypatch.setattr(backend.cache, "store", lambda key, *rest: stored.append(key))
    before = hash_of(kernel.definition, "exact", "C++")
    backend.load_on_device("cpu", kernel, *layouts, "exact", None, lambda: None, {})
    assert before is not None
    assert before not in stored


def test_the_hash_is_the_same_in_another_process(tmp_path):
    """Sets and dicts of the interpreter have another order there."""
    path = tmp_path / "hashed.py"
    path.write_text(
        KERNEL.replace("SPEED = 2", "SPEED = 2\nSPEEDS = {'near', 'far', 'here'}\nNUMBERS = {3, 1, 2}") + PRINTED
    )
    found = [
        subprocess.run(
            [sys.executable, path],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(found[0].strip()) == 64
    assert found[0] == found[1]


PRINTED = """
from vecenv._batch.layout import Layout
from vecenv.kernel.language.digest import digest_of, _Functions
kernel = vecenv.kernel.kernel_of(Digest)
spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
print(digest_of(kernel, map(Layout, spaces), {}, _Functions({})._value({'near', 'far', 'here', 3})))
"""


def test_values_are_those_of_now(defined, monkeypatch):
    module = defined(KERNEL)
    found = [hash_of(module.Digest)]
    for owner, name, value in (
        (module, "SPEED", 5), (module.Settings.Inner, "limit", 9), (module, "inner", module.helper),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, value)
        found.append(hash_of(module.Digest))
    module.TABLE[0] = 9.0
    found.append(hash_of(module.Digest))
    assert None not in found
    assert len({*found}) == len(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("np.__version__", "9.9"), ("__version__", "9.9"), ("sys.version", "9.9"), ("_compiler", lambda: "others")],
)
def test_other_versions_and_files_of_the_compiler_have_other_hashes(name, value, defined, monkeypatch):
    definition = defined(KERNEL).Digest
    original = hash_of(definition)
    monkeypatch.setattr(f"vecenv.kernel.language.digest.{name}", value)
    assert hash_of(definition) not in (None, original)
    assert hash_of(definition, "fast") != hash_of(definition, "exact")


def test_files_of_the_compiler_that_changed_after_it_was_imported_are_no_hash(defined, monkeypatch):
    definition = defined(KERNEL).Digest
    monkeypatch.setattr(digest, "IMPORTED", os.stat(backend.__file__).st_mtime - 1)
    monkeypatch.setattr(digest, "_compiler", digest._compiler.__wrapped__)
    assert hash_of(definition) is None


@pytest.mark.parametrize("value", [object(), np.array(["a"]), (1, object()), {"a": [object()]}])
def test_values_that_cannot_be_hashed_are_no_hash(value):
    with pytest.raises(digest._Unknown):
        digest._Functions({})._value(value)


def test_every_kernel_that_ships_has_a_hash_of_its_own():
    kernels = [find_kernel(id) for id in SHIPPED]
    found = [
        digest_of(kernel, map(Layout, kernel.spaces(kernel.record(kernel.parameters({}, 1)))), {}) for kernel in kernels
    ]
    assert None not in found
    assert len({*found}) == len(found)


def test_a_text_is_written_once_and_read_afterwards(defined, tmp_path, monkeypatch):
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path / "cache"))
    definition = defined(KERNEL).Digest
    first = DeviceEngine(kernel_of(definition), 2)._native
    with monkeypatch.context() as patch:
        patch.setattr(backend, "load_kernel", lambda *_, **__: pytest.fail("it is lowered again"))
        second = DeviceEngine(kernel_of(definition), 2)._native
    assert second.text == first.text
    assert second.slots == first.slots
    for changed in (KERNEL.replace("SPEED = 2", "SPEED = 4"), KERNEL.replace("return x + 1", "return x + 4")):
        assert DeviceEngine(kernel_of(defined(changed).Digest), 2)._native.text != first.text
    for path in (tmp_path / "cache").iterdir():
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"?")  # damaged: it is written again
    assert DeviceEngine(kernel_of(definition), 2)._native.text == first.text


def test_a_kernel_that_is_refused_has_no_text(defined, tmp_path, monkeypatch):
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path / "cache"))
    definition = defined(KERNEL.replace("np.abs(-1.0)", "(None, 1.0)[1]")).Digest
    for _ in range(2):
        with pytest.raises(KernelError, match="None"):
            DeviceEngine(kernel_of(definition), 2)


# --- where a function ends -------------------------------------------------------------------------------------------

FUNCTIONS = '''
def plain(x):
    return x  # to the end


def closed(
    x,
) -> int:
    """A text
that is not indented, and

# looks like a comment
    """
    return (
x
)
    # a comment at the end

def one_line(x): return x
@str.upper if False else (
    lambda function: function
)
def decorated(x):

    return x + \\
1
def tabs(x):
\tif x:
\t    return 1
\treturn 2

def last(x):
    def within():
        return x
    return within
# the end'''


def test_the_end_of_a_function_is_where_inspect_finds_it(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    with imported(path) as module:
        names = ("plain", "closed", "one_line", "decorated", "tabs", "last")
        for function in (*(getattr(module, name) for name in names), module.last(1)):
            lines, first = inspect.getsourcelines(function)
            expected = ast.parse(textwrap.dedent("".join(lines)))
            ast.increment_lineno(expected, first - 1)
            found = source._parse(function).node
            assert ast.dump(found, include_attributes=True) == ast.dump(expected.body[0], include_attributes=True)
