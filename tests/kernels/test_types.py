"""Types that are inferred for kernels: those that Numba infers, for every function of every kernel that ships."""

import ast

import pytest
from numba import njit, types

from tests.kernels.language_kernels import Language, Narrow, ReadsObs
from tests.kernels.native_kernels import ALL
from vecenv._batch.layout import Layout
from vecenv.kernel import kernel_of
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.lower.infer import Inference
from vecenv.kernel.lower.resolve import resolve
from vecenv.kernel.lower.types import NOTHING, STREAM, UNKNOWN, Array, Number, Tuple, join
from vecenv.kernel.numba import compile as compiler
from vecenv.kernel.numba.emit import emit
from vecenv.kernel.numba.math import EXACT

SHIPPED = [
    "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1",
    "Taxi-v3", "CliffWalking-v1", "Blackjack-v1", "FourRooms-v0", "Snake-v0", "Breakout-v0",
]  # fmt: skip
TASKS = ["HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "Reacher-v5", "InvertedPendulum-v5"]


def same(ours, theirs):
    """Whether a type is Numba's."""
    theirs = types.unliteral(theirs)
    if isinstance(ours, Number):
        return str(theirs) == ours.dtype or isinstance(theirs, types.Optional)
    if isinstance(ours, Array):
        return isinstance(theirs, types.Array) and theirs.ndim == len(ours.shape) and str(theirs.dtype) == ours.dtype
    if isinstance(ours, Tuple):
        parts = theirs.types if isinstance(theirs, types.BaseTuple) else ()
        return len(parts) == len(ours.items) and all(map(same, ours.items, parts))
    if ours == NOTHING:
        return theirs in (types.none, types.int64) or isinstance(theirs, types.Omitted)
    return ours in (UNKNOWN, STREAM)


def numba_type(dtype, dimensions):
    element = types.boolean if dtype.kind == "b" else getattr(types, dtype.name)
    return types.Array(element, dimensions, "C")


def wide(dtype):
    return {"b": types.boolean, "f": types.float64}.get(dtype.kind, types.int64)


def signature(program, one):
    """Types of the arguments that the row loop passes to a method."""
    kernel, method = program.kernel, one.function
    arguments = []
    for parameter in method.source.parameters:
        role = method.roles[parameter]
        if role == "state":
            for field in kernel.state.values():
                number = wide(field.dtype) if one.registers else numba_type(field.dtype, 1)
                arguments.append(numba_type(field.dtype, len(field.shape)) if field.shape else number)
        elif role == "params":
            for field in kernel.params.values():
                array = numba_type(field.dtype, len(field.shape)) if field.shape else wide(field.dtype)
                arguments.append(array)
        elif role in program.layouts:
            for leaf in program.layouts[role].leaves:
                number = numba_type(leaf.dtype, 1) if role == "obs" else wide(leaf.dtype)
                arguments.append(numba_type(leaf.dtype, len(leaf.shape)) if leaf.shape else number)
        else:
            arguments.append(types.Array(types.uint64 if role == "rng" else types.int8, 1, "C"))
    return tuple(arguments)


def compiled(program):
    """Functions of a program as Numba compiled them, by name."""
    emitted = emit(program)
    names = compiler._names(program, "exact")
    for name, one in emitted.functions.items():
        exec(compile(ast.Module([one.node], []), one.function.source.file, "exec"), names)
        names[name] = njit(**EXACT, **compiler.ALONE)(names[name])
    for name in program.methods:
        names[name].compile(signature(program, emitted.functions[name]))
    return {name: names[name] for name in emitted.functions}


def differences(kernel):
    """Variables and results whose types are not Numba's, and how many were compared."""
    parameters = kernel.parameters({}, 1)
    layouts = [Layout(space) for space in kernel.spaces(kernel.record(parameters))]
    program = resolve(kernel, *layouts)
    inference = Inference(program, {name: column.shape[1:] for name, column in parameters.items()})
    inference.run()
    functions = compiled(program)
    found, count = [], 0
    for (name, _), instance in inference.instances.items():
        for overload in functions[name].overloads.values():
            plain = [
                place
                for place, argument in enumerate(functions[name].py_func.__code__.co_varnames)
                if argument in instance.function.source.parameters and argument not in instance.function.roles
            ]
            given = [overload.signature.args[place] for place in plain if place < len(overload.signature.args)]
            if not all(map(same, instance.arguments, given)):
                continue  # the types of another call
            if instance.function.method is None and not same(instance.result, overload.signature.return_type):
                found.append((name, "result", instance.result, overload.signature.return_type))
            for variable, theirs in overload.type_annotation.typemap.items():
                ours = instance.stored.get(variable.partition(".")[0])
                if ours is None or variable.startswith(("$", "arg.")):
                    continue
                count += 1
                joined = None
                for one in ours:
                    joined = join(joined, one)
                if not any(same(one, theirs) for one in [*ours, joined]):
                    found.append((name, variable, ours, theirs))
    assert len(inference.instances) >= len(program.functions)
    return found, count


@pytest.mark.parametrize("env", [*SHIPPED, *TASKS, *ALL, Language, Narrow, ReadsObs], ids=str)
def test_types_of_variables_and_results_are_those_of_numba(env):
    kernel = _kernel(env)
    found, count = differences(kernel)
    assert not found
    assert count or env in ("CliffWalking-v1", *ALL, Narrow, ReadsObs)


def _kernel(env):
    if env in TASKS:
        pytest.importorskip("mujoco")
        from vecenv._make.source import task_kernel
        from vecenv.mujoco._registry import find_task

        return task_kernel(find_task(env), {})
    return find_kernel(env) if isinstance(env, str) else kernel_of(env)
