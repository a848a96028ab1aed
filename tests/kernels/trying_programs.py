"""Tries programs that were written at random: Python, loops and native code compute the same bits, and errors are ours.

    python -m tests.kernels.trying_programs FIRST COUNT [--native | --device] [--careless]

tries the programs of these seeds and prints what it finds; careless programs are such as may be wrong. With --device
native code is C++ for the device "cpu".
"""

from __future__ import annotations

import re
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import vecenv
from tests.kernels.defining import imported
from tests.kernels.emitted import EmittedEnv
from tests.kernels.random_programs import FIELDS, Careless, filled, library, module, program
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.errors import KernelError
from vecenv.kernel import Kernel, kernel_of
from vecenv.kernel.language.python import KernelEnv

STATES = 6
"""With how many states each program runs."""
NOT_OURS = re.compile(
    r"(?i:numba|llvm|nopython)|\bCells\b|\w__\b|\bRef\b|\bOrigins\b|\bNumber\(|\bArray\(|\bBound\(|\bOther\(|local:\d|"
    r"\bIterator\(|\bItems\(|field:|argument:\d|\bwiden\b|0x[0-9a-f]{6}|\bTyping|\bast\.|<class|_missing|temporary"
)
"""What no message may hold: text of the compiler and names of our own code."""


@dataclass
class Result:
    """What became of the programs."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)

    def defect(self, what: str, text: str, error: Any = "") -> None:
        shown = "".join(traceback.format_exception(error)[-4:]) if isinstance(error, BaseException) else str(error)
        self.defects.append(f"--- {what}\n{shown}\n{text}")
        if __name__ == "__main__":
            print(self.defects[-1], flush=True)


COMPILED: dict[str, Any] = {"engine": "compiled", "workers": 1}
"""Arguments of `make` for native code."""
DEVICE: dict[str, Any] = {"device": "cpu"}


def try_programs(
    seeds: range, path: Path, *, native: bool, batch: int = 20, options: dict[str, Any] = COMPILED
) -> Result:
    """Try the programs of some seeds; native code is what `make` makes with these options."""
    names, result = library(), Result()
    good: list[str] = []
    for seed in seeds:
        text = program(seed, names)
        result.tried["programs"] += 1
        if works_as_loops(seed, text, path, result):
            good.append(text)
    for first in range(0, len(good), batch) if native else ():
        try_natively(good[first : first + batch], path, result, options)
    return result


def try_careless(seeds: range, path: Path, *, native: bool, batch: int = 40) -> Result:
    """Try programs that may be wrong: they are refused in our words, or can be compiled."""
    result, accepted = Result(), []
    for seed in seeds:
        text = Careless(seed).program()
        result.tried["careless programs"] += 1
        if is_accepted(seed, text, path, result):
            accepted.append(text)
    for first in range(0, len(accepted), batch) if native else ():
        _try_to_compile(accepted[first : first + batch], path, result)
    return result


@contextmanager
def _careless(file: Path) -> Iterator[ModuleType]:
    """The module in a file, without Python's own remarks on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        with imported(file) as held:
            yield held


def is_accepted(seed: int, text: str, path: Path, result: Result) -> bool:
    """Whether a program breaks no rule; what it is refused for must be in our words."""
    try:
        with _careless(_written(path, f"careless_{seed}", [text])) as held:
            EmittedEnv(_kernel(held))
    except KernelError as error:
        result.tried["refused"] += 1
        for one in error.errors:
            result.refused[re.sub(r"\d+|\([^)]*\)|'[^']*'|\bv\b", "_", one.rule)[:110]] += 1
            if NOT_OURS.search(one.rule):
                result.defect("a message with names that are not the user's", text, one.rule)
        return False
    except Exception as error:
        result.defect(f"checking raises {type(error).__name__}", text, error)
        return False
    result.tried["accepted"] += 1
    return True


def _try_to_compile(programs: list[str], path: Path, result: Result) -> None:
    """Compile programs together; those that the compiler refuses are found by halves. They are not run."""
    name = f"compiled_{re.sub(r'[^0-9]', '', programs[0].split('(')[0])}_{len(programs)}"
    with _careless(_written(path, name, programs)) as held:
        try:
            vecenv.make(held.Programs, 1, engine="compiled", workers=1).close()
        except Exception as error:
            if len(programs) == 1:
                result.defect("the compiler refuses", programs[0], getattr(error, "compiler_text", "") or error)
                return
            half = len(programs) // 2
            _try_to_compile(programs[:half], path, result)
            _try_to_compile(programs[half:], path, result)
        else:
            result.tried["compiled"] += len(programs)


def _kernel(held: Any) -> Kernel:
    found = kernel_of(held.Programs)
    assert found is not None
    return found


def _written(path: Path, name: str, programs: list[str]) -> Path:
    file = path / f"{name}.py"
    file.write_text(module(programs))
    return file


def states(count: int) -> list[dict[str, np.ndarray]]:
    """States of envs, by their fields."""
    found = []
    for seed in range(count):
        generator = np.random.default_rng(seed)
        state = {}
        for name, text in FIELDS.items():
            array = np.array(np.zeros(1, eval(f"np.dtype({text})", {"np": np}))[0])
            filled(name, array, generator)
            state[name] = array
        found.append(state)
    return found


def run_in_python(kernel: Any, action: int) -> list[tuple[float, dict[str, np.ndarray]]]:
    """Rewards and states after a step of each state."""
    env, found = KernelEnv(kernel), []
    for seed, state in enumerate(states(STATES)):
        env.reset(seed=seed)
        for name, array in state.items():
            setattr(env.state, name, array if array.ndim else array.item())
        reward = env.step(action)[1]
        held = {name: np.array(getattr(env.state, name), array.dtype) for name, array in state.items()}
        found.append((reward, held))
    return found


def _run_loops(kernel: Any) -> list[tuple[float, dict[str, np.ndarray]]]:
    env, found = EmittedEnv(kernel), []
    for seed, state in enumerate(states(STATES)):
        env.reset(seed)
        for name, array in state.items():
            env.state[name][...] = array
        reward = env.step(0)[0]
        found.append((reward, {name: env.state[name].reshape(array.shape).copy() for name, array in state.items()}))
    return found


def difference(wanted: tuple[float, dict[str, np.ndarray]], found: tuple[float, dict[str, np.ndarray]]) -> str | None:
    """The first field that differs, in any bit; all NaNs count as the same."""
    pairs = {"reward": (np.float64(wanted[0]), np.float64(found[0]))}
    pairs |= {f"s.{name}": (array, found[1][name]) for name, array in wanted[1].items()}
    for name, (python, other) in pairs.items():
        one, two = np.asarray(python), np.asarray(other)
        if one.dtype.kind == "f":
            one, two = (np.where(np.isnan(side), np.full_like(side, np.nan), side) for side in (one, two))
        if one.tobytes() != two.tobytes():
            return f"{name}: Python {python}, other {other}"
    return None


def works_as_loops(seed: int, text: str, path: Path, result: Result) -> bool:
    """Whether a program is accepted and Python can run it; its loops must then do the same."""
    with imported(_written(path, f"program_{seed}", [text])) as held:
        kernel = _kernel(held)
        try:
            EmittedEnv(kernel)
        except KernelError as error:
            result.tried["refused"] += 1
            result.refused[re.sub(r"\d+|\([^)]*\)|'[^']*'|\bv\b", "_", error.rule)[:110]] += 1
            if NOT_OURS.search(error.rule):
                result.defect("a message with names that are not the user's", text, error.rule)
            return False
        except Exception as error:
            result.defect(f"lowering raises {type(error).__name__}", text, error)
            return False
        try:
            wanted = run_in_python(kernel, 0)
        except KernelError as error:
            result.tried["raise in Python"] += 1
            if NOT_OURS.search(error.rule):
                result.defect("a message with names that are not the user's", text, error.rule)
            return False
        except Exception as error:
            result.defect(f"Python mode raises {type(error).__name__}", text, error)
            return False
        try:
            found = _run_loops(kernel)
        except ArithmeticError:  # of ints, which are Python's here
            return True
        except Exception as error:
            result.defect(f"loops raise {type(error).__name__}", text, error)
            return False
        for one, other in zip(wanted, found, strict=True):
            differs = difference(one, other)
            if differs:
                result.defect("loops differ", text, differs)
                return False
    result.tried["as loops"] += 1
    return True


def try_natively(programs: list[str], path: Path, result: Result, options: dict[str, Any] = COMPILED) -> None:
    """Compile programs together; those that the compiler refuses are found by halves."""
    name = f"native_{re.sub(r'[^0-9]', '', programs[0].split('(')[0])}_{len(programs)}"
    with imported(_written(path, name, programs)) as held:
        kernel, count = _kernel(held), len(programs) * STATES
        try:
            envs = vecenv.make(held.Programs, count, **options)
        except Exception as error:
            if len(programs) == 1:
                result.defect("the compiler refuses", programs[0], getattr(error, "compiler_text", "") or error)
                return
            half = len(programs) // 2
            try_natively(programs[:half], path, result, options)
            try_natively(programs[half:], path, result, options)
            return
        with envs:
            envs.reset(seed=[row % STATES for row in range(count)])
            for row in range(count):
                for name, array in states(STATES)[row % STATES].items():
                    np.asarray(getattr(envs.state, name))[row] = array
            rewards = np.asarray(envs.step(np.arange(count) // STATES)[1])
            for place, text in enumerate(programs):
                wanted = run_in_python(kernel, place)
                result.tried["native"] += 1
                for row, one in enumerate(wanted, place * STATES):
                    held_now = {name: np.array(np.asarray(getattr(envs.state, name))[row]) for name in FIELDS}
                    differs = difference(one, (rewards[row], held_now))
                    if differs:
                        result.defect("native code differs", text, differs)
                        break


def main() -> None:
    """Try the programs that the command line names."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    CompiledEngine._try_out = lambda self: None  # type: ignore[method-assign]  # the states of programs are not zero
    with tempfile.TemporaryDirectory() as path:
        seeds, native = range(first, first + count), "--native" in sys.argv
        if "--careless" in sys.argv:
            result = try_careless(seeds, Path(path), native=native)
        elif "--device" in sys.argv:
            result = try_programs(seeds, Path(path), native=True, options=DEVICE)
        else:
            result = try_programs(seeds, Path(path), native=native)
    for rule, times in result.refused.most_common(40):
        print(f"{times:5} {rule}")
    print(dict(result.tried), f"{len(result.defects)} defects")


if __name__ == "__main__":
    main()
