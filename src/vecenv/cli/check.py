"""Check whether an env is correct, and which engine suits it.

Checks API, spaces, NaN, determinism, buffer reuse, pickling, whether engines
agree, indices and loops of native code, and speed. The exit code is 1 if a check fails; with --strict also if
there are warnings.

Examples:
  vecenv check my_module:MyEnv
  vecenv check path/to/file.py:MyEnv --kwargs size=8
  vecenv check CartPole-v1 --json
  vecenv check CartPole-v1 --show-native
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import tyro
from rich.text import Text

from vecenv.cli._options import Count, Flag, Pairs, Screens, Seed, pairs, screens
from vecenv.cli._screen import Screen, new_table
from vecenv.cli._sources import EnvSource, find_env
from vecenv.errors import ConfigError

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


@dataclass(frozen=True)
class Options:
    """Options of `vecenv check`."""

    env: tyro.conf.Positional[str]
    """An id, module:Class or file.py:Class."""
    steps: Count = 500
    """Number of random steps of each check."""
    seed: Seed = 0
    """Seed of the first episode."""
    kwargs: Pairs = ()
    """Constructor arguments of the env."""
    preprocessing: Screens = None
    """Atari games: dqn, True (Gymnasium's), or options such as "{'frame_stack': 2}". Default: raw frames."""
    strict: Flag = False
    """Treat warnings as failures."""
    json: Flag = False
    """Print the findings as JSON."""
    show_native: Flag = False
    """Check nothing; print the text that native code of a kernel is compiled from."""


def run(options: Options, screen: Screen) -> int:
    """Check, print a table, and return whether all checks passed."""
    from vecenv.cli._checks import CHECKS, Subject, carry_out

    if options.steps < 1:
        raise ConfigError(f"--steps must be at least 1, got {options.steps}")
    source = find_env(options.env, pairs(options.kwargs, "--kwargs"), screens(options.preprocessing))
    if options.show_native:
        return _show_native(source, screen)
    subject = Subject(source, options.steps, options.seed)
    found: list[list[Any]] = []
    with screen.progress(f"check {source.title}", len(CHECKS), "checks") as bar:
        for number, check in enumerate(CHECKS):
            bar.update(number, check.__name__.replace("_", " "))
            found.append(carry_out(check, subject, _joined(found)))
    findings = _joined(found)
    wrong = {"failed", "warning"} if options.strict else {"failed"}
    bad = any(one.result in wrong for one in findings)
    table = new_table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in findings:
        lines = [one.message, *([f"-> {one.advice}"] if one.advice else [])]
        table.add_row(one.check, Text(one.result, _COLOURS[one.result]), Text("\n".join(lines)))
    verdict = f"{source.name}: {_verdict([{one.result for one in each} for each in found if each], wrong)}"
    data = {"env": source.name, "ok": not bad, "checks": [asdict(one) for one in findings], "engine": subject.engine}
    screen.answer(data, table, verdict)
    return 1 if bad else 0


def _joined(found: list[list[Any]]) -> list[Any]:
    return [one for each in found for one in each]


def _verdict(results: list[set[str]], wrong: set[str]) -> str:
    """How many checks failed, gave warnings and were skipped; a check may have several results."""
    ran = [one for one in results if one != {"skipped"}]
    failed = sum(bool(one & wrong) for one in ran)
    warned = sum("warning" in one for one in ran)
    skipped = len(results) - len(ran)
    words = [
        f"{failed} of {len(ran)} checks failed" if failed else "all checks passed",
        f"{warned} with warnings" if warned else "",
        f"{skipped} skipped" if skipped else "",
    ]
    return ", ".join(word for word in words if word)


def _show_native(source: EnvSource, screen: Screen) -> int:
    """Print the functions of a kernel and the row loop around them, as the compiler gets them."""
    from vecenv._batch.layout import Layout
    from vecenv._make.source import find_build, task_kernel
    from vecenv.engines.native.options import split_kwargs
    from vecenv.kernel.backend import find_backend, native_text
    from vecenv.mujoco._registry import find_task

    task = find_task(source.env)
    kernel = find_build(source.env)[0] if task is None else task_kernel(task, source.kwargs)
    if kernel is None:
        raise ConfigError(
            f"{source.name} has no kernel, so there is no native code to show; write it as a class with @vecenv.kernel "
            "(see docs/kernels.md), or check it without --show-native"
        )
    kwargs = split_kwargs(kernel, source.kwargs)[0]
    if task is not None:
        kwargs = {name: value for name, value in kwargs.items() if name in kernel.params}
    parameters = kernel.parameters(kwargs, 1)
    observation, action = kernel.spaces(kernel.record(parameters))
    shapes = {name: column.shape[1:] for name, column in parameters.items() if column.ndim > 1}
    text = native_text(kernel, Layout(observation), Layout(action), shapes)
    screen.answer({"env": source.name, "backend": find_backend().name, "text": text})
    if not screen.json:
        print(text, end="")
    return 0
