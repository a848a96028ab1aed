"""Random programs of calls, compared with a model or with another vector env."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vecenv.errors import MissingExtra
from vecenv.testing._check_transform import MODES
from vecenv.testing._interrupting import errors_in_hooks_printed


def check_machine(
    build: Callable[[Sequence[Any], str], Any],
    *,
    native: bool = False,
    interrupts: bool = True,
    modes: Sequence[str] = MODES,
    examples: int = 20,
    steps: int = 30,
    bound: float = 5.0,
    seed: int | None = None,
    shrink: bool = True,
) -> Counter[str]:
    """Call a vector env in random order and compare every result with a model of its envs.

    The random programs contain: reset of all and of some envs, step, send and recv, also when they are not possible or
    with wrong arguments; timeouts that expire, interrupts during a call, attributes, killed processes, close and
    pickle. The envs are `ObedientEnv`s: every observation contains its env, episode, step and action, and some actions
    make the env raise, wait or end its process. The laws:

    - *Rows.* Every row that is returned equals the model's, to the last bit, infos and totals included.
    - *Order.* A call that is not possible raises the documented error and changes nothing.
    - *Errors.* Failures are raised as the documented errors, exactly when envs fail.
    - *Bound.* Every call returns in time.
    - *Processes, remains.* The number of processes stays the same; after close no process, thread or open file is left.
    - *Ownership.* Arrays that were returned are never written to again.

    Args:
        build: makes the vector env from these four factories in this autoreset mode, e.g.
            `lambda factories, mode: vecenv.make(factories, engine="thread", workers=2, autoreset=mode)`. It is called
            once per program.
        native: whether the envs are four kernel versions of LawEnv, with the parameters `index` and `bonus`; they have
            no infos and methods and cannot fail. The factories are not used.
        interrupts: whether to raise KeyboardInterrupt inside calls; only in the main thread.
            Windows has no timer for this, and no interrupts are tried there.
        modes: autoreset modes to try.
        examples: number of programs.
        steps: number of calls in each.
        bound: seconds that a call may take.
        seed: seed of the programs; None: always the same programs.
        shrink: whether to search for the shortest failing program, which takes a while.

    Returns:
        Counts of what happened: "programs", "calls", "rows", "refusals", errors by name, "interrupts of step", ...

    Raises:
        AssertionError: names the law that does not hold; Hypothesis prints the shortest program it has found.
        MissingExtra: Hypothesis is not installed.
    """
    programs = _programs()
    setting = programs.Setting(build, tuple(modes), native, interrupts and hasattr(signal, "setitimer"), bound)
    with errors_in_hooks_printed():
        programs.run_machine(setting, examples=examples, steps=steps, seed=seed, shrink=shrink)
    return setting.tally


def check_same(
    one: Callable[[Any], Any],
    other: Callable[[Any], Any],
    *,
    variants: Sequence[Any] = (None,),
    calls: Sequence[tuple[Any, ...]] = (),
    attributes: Mapping[str, Sequence[Any]] | None = None,
    asynchronous: bool = True,
    options: Sequence[Mapping[str, Any] | None] = (None,),
    examples: int = 20,
    steps: int = 20,
    seed: int | None = None,
    shrink: bool = True,
) -> Counter[str]:
    """Make the same random calls on two vector envs of any envs; all results must be equal.

    Arrays are compared bit by bit, with dtype and shape; infos, totals and errors too: type, text, env, phase, action
    and seed, but not the worker. The behaviour of an env must depend only on its seed and its actions.

    Args:
        one: makes a vector env of a variant, usually the reference with engine="sync".
        other: makes the same envs with another engine.
        variants: every program uses one of these: an autoreset mode, a kind of env, or anything else.
        calls: arguments of `call`, as (name, argument, ...).
        attributes: names for `set_attr`, and the values to choose from.
        asynchronous: whether they have `send`, `recv` and partial steps; False if `other` makes vector envs of another
            library. The order of infos may differ then, and an error of `one` must be an instance of the other's type.
        options: for `reset` to choose from.
        examples: number of programs.
        steps: number of calls in each.
        seed: seed of the programs; None: always the same programs.
        shrink: whether to search for the shortest failing program, which takes a while.

    Returns:
        Counts of what happened: "programs", "calls", "errors", "wrong calls".

    Raises:
        AssertionError: names the first difference.
        MissingExtra: Hypothesis is not installed.
    """
    programs = _programs()
    pair = programs.Pair(
        (one, other), tuple(variants), tuple(calls), dict(attributes or {}), asynchronous, tuple(options)
    )
    programs.run_same(pair, examples=examples, steps=steps, seed=seed, shrink=shrink)
    return pair.tally


def _programs() -> Any:
    """The module that needs Hypothesis."""
    try:
        from vecenv.testing import _programs as programs
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise MissingExtra("random programs need Hypothesis: pip install hypothesis") from None
    return programs
