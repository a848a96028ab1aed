"""The stages between a kernel and native code: what is resolved, what an op does to a row, what backends are asked."""

import ast
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils import seeding

import vecenv
from tests.kernels.defining import imported, marked, written
from tests.kernels.language_kernels import Language, Narrow, ReadsObs
from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout
from vecenv.errors import KernelError
from vecenv.kernel import kernel_of
from vecenv.kernel.backend import find_backend, load_kernel, native_text
from vecenv.kernel.language.python import KernelEnv
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.lower import transition
from vecenv.kernel.lower.columns import slots_of
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.lower.tree import Kind, Ref
from vecenv.kernel.numba.compile import compile_program
from vecenv.kernel.numba.emit import emit

KERNELS = [Language, Narrow, ReadsObs, "CartPole-v1", "Pendulum-v1", "Blackjack-v1", "Snake-v0", "Breakout-v0"]


def kernel_and_layouts(env):
    kernel = find_kernel(env) if isinstance(env, str) else kernel_of(env)
    spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    return kernel, *map(Layout, spaces)


def nodes_of(function):
    return [node for statement in function.body for node in ast.walk(statement)]


@pytest.mark.parametrize("env", KERNELS)
def test_every_name_of_a_resolved_function_is_local_or_known(env):
    program = resolve(*kernel_and_layouts(env))
    known = {
        Kind.FIELD: program.kernel.state,
        Kind.PARAMETER: program.kernel.params,
        Kind.CONSTANT: program.constants,
        Kind.NUMPY: program.constants,
        Kind.DRAW: program.draws,
        Kind.HELPER: {function.name for function in program.functions},
        Kind.TWIN: program.twins,
    }
    for function in program.functions:
        for node in nodes_of(function):
            if isinstance(node, ast.Name):
                assert node.id in function.source.locals or node.id.startswith("temporary")
                assert function.roles.get(node.id) in (None, "rng", "mask")
            elif isinstance(node, Ref):
                assert node.name in known.get(node.kind, {node.name})


@pytest.mark.parametrize("env", KERNELS)
def test_every_number_that_is_read_from_memory_is_widened(env):
    program = resolve(*kernel_and_layouts(env))
    for function in program.functions:
        nodes = nodes_of(function)
        widened = {
            id(node.args[0])
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, Ref) and node.func.name == "widen"
        }
        for node in nodes:
            is_field = isinstance(node, Ref) and node.kind is Kind.FIELD and not program.kernel.state[node.name].shape
            if (is_field or isinstance(node, ast.Subscript)) and isinstance(node.ctx, ast.Load):
                inside = any(isinstance(other, ast.Subscript) and other.value is node for other in nodes)
                assert id(node) in widened or inside or _is_part(node, nodes)


def _is_part(node, nodes):
    """Whether a subscript is a part of an array that is assigned as a whole: `assign(part, value)`."""
    return any(
        isinstance(call, ast.Call) and isinstance(call.func, Ref) and call.func.name == "assign" and node in call.args
        for call in nodes
    )


def test_the_stages_before_a_backend_import_none():
    for file in Path(transition.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any("numba" in name or "llvmlite" in name for name in names), file


@pytest.mark.parametrize("name", ["frexp", "ldexp"])
def test_what_a_backend_cannot_do_is_refused_with_its_line_before_the_compiler_starts(name, tmp_path):
    call = {"frexp": "math.frexp(s.x)[0]", "ldexp": "math.ldexp(s.x, 2)"}[name]
    file = written(tmp_path, f"def step(s, action, rng, p):\n    s.x = {call}  #!\n    return 0.0, False")
    with imported(file) as module:
        arguments = kernel_and_layouts(module.Wrong)
        refused = find_backend().refuses(resolve(*arguments))
        with pytest.raises(KernelError, match=f"math.{name} needs Numba when it runs") as caught:
            load_kernel(*arguments, "exact", before=lambda: pytest.fail("the compiler is started"))
    assert str(refused) == str(caught.value)
    assert f"line {marked(file)}" in str(caught.value) or f":{marked(file)}" in str(caught.value)


def test_the_text_of_native_code_has_the_functions_and_the_row_loop():
    text = native_text(*kernel_and_layouts(Language))
    defined = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert {"reset", "step", "observe", "block", "wrong", "run"} <= defined
    assert any(name.endswith("__scaled") for name in defined), "helpers too"


@pytest.mark.parametrize("constant", ["{}", "(1.0, {})", "np.array([1.0, {}])"])
def test_native_code_has_another_text_where_a_constant_has_another_last_digit(constant, tmp_path):
    texts = set()
    read = "SCALE" if constant == "{}" else "SCALE[1]"
    for number in ("0.3", "0.1 + 0.2", "0.3"):
        step = f"def step(s, action, rng, p):\n    return {read}, False"
        with imported(written(tmp_path, step, before=f"SCALE = {constant.format(number)}")) as module:
            texts.add("\n".join(resolve(*kernel_and_layouts(module.Wrong)).constants_text))
    assert len(texts) == 2


# --- the row transition ----------------------------------------------------------------------------------------------


class PythonRow:
    """One row that runs the phases of the transition as they are written: the smallest backend there is."""

    def __init__(self, kernel, slots, limit):
        self.env = KernelEnv(kernel)
        self.action = 0
        numbers = {slot.name: slot.dtype.type(0).item() for slot in slots if slot.shape == ()}
        self.columns = {
            **numbers, "SEED": -1, "LAST_SEED": -1, "FALLBACK": 5, "RNG": [0] * 6, "limit": limit, "count": 0, "O": "O",
            "F": "F", "obs": {}, **transition.CONSTANTS, **{name: getattr(self, name) for name in transition.CALLS},
        }  # fmt: skip

    def run(self, alive=0, over=0):
        self.columns |= {"alive": int(alive), "over": int(over)}
        for phase in transition.PHASES:
            if phase.where is None or self.columns[phase.where]:
                exec(phase.text, self.columns)

    def step(self):
        if not self.columns["stepped"]:
            return 9.0, True, True  # masked
        return self.env.step(self.action)[1:4]

    def reset(self):
        self.env._run("reset", self.env.state, self.env._stream(), self.env.params)

    def observe(self, into):
        self.columns["obs"][into] = self.env._observe()

    def seed_stream(self, seed):
        self.env.np_random = seeding.np_random(seed)[0]
        self.columns["RNG"] = [1] * 6

    def restore_parameters(self):
        self.env.params = self.env._own_params


@pytest.mark.parametrize("mode", ["next-step", "same-step"])
def test_the_transition_as_it_is_written_is_what_native_code_does(mode):
    count, limit = 5, 12
    alive, over = (Op.STEP, Op.RESET) if mode == "next-step" else (Op.ROLL, Op.ROLL)
    envs = vecenv.make("CartPole-v1", count, engine="compiled", autoreset=mode, max_episode_steps=limit)
    kernel, *layouts = kernel_and_layouts("CartPole-v1")
    rows = [PythonRow(kernel, slots_of(kernel, *layouts), limit) for _ in range(count)]
    batch, ended = envs.engine.batch, 0
    actions = np.random.default_rng(0).integers(0, 2, (60, count))

    def same():
        for number, row in enumerate(rows):
            of_batch = (
                batch.reward,
                batch.terminated,
                batch.truncated,
                batch.episode_return,
                batch.episode_length,
                batch.done,
            )
            names = ("REWARD", "TERMINATED", "TRUNCATED", "RETURN", "LENGTH", "DONE")
            assert [column[number] for column in of_batch] == [row.columns[name] for name in names]
            assert batch.obs[0][number].tobytes() == row.columns["obs"]["O"].tobytes()
            assert batch.last_seed[number] == row.columns["LAST_SEED"]

    envs.reset(seed=3)
    for number, row in enumerate(rows):
        row.columns |= {"OP": int(Op.RESET), "SEED": 3 + number}
        row.run()
    same()
    for chosen in actions:
        envs.step(chosen)
        for row, action in zip(rows, chosen, strict=True):
            row.action = action
            row.run(alive, over)
        same()
        for number, row in enumerate(rows):
            if (row.columns["TERMINATED"] or row.columns["TRUNCATED"]) and mode == "same-step":
                ended += 1
                assert batch.final_obs[0][number].tobytes() == row.columns["obs"]["F"].tobytes()
    assert ended > 5 or mode == "next-step"
    assert sum(row.columns["count"] for row in rows) > 5
    envs.close()


def test_whatever_the_compiler_raises_becomes_an_error_of_ours():
    """Its text is kept for a report, and is not what the user reads."""
    emitted = emit(resolve(*kernel_and_layouts("CartPole-v1")))
    with pytest.raises(KernelError, match="a defect of vecenv") as caught:
        compile_program(emitted, "def run(orders):\n    x = [1]\n    return 0\n", "exact")
    assert caught.value.compiler_text == "[1]"
    assert caught.value.__cause__ is None
    assert "NotInRowLoop" not in str(caught.value)
