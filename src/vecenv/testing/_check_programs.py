"""Random programs of calls, compared with a model or with another vector env."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vecenv.errors import MissingExtra
from vecenv.testing._check_transform import MODES


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
    """Call a vector env in any order and compare every answer with a model of its envs.

    Random programs of calls: reset of all and of some, step, send, recv, each also where it is not possible or with
    arguments that cannot be right; timeouts that expire, interrupts in the middle of a call, attributes, processes
    that are killed, close, pickle. The envs are `ObedientEnv`s: every observation says which env, episode, step and
    action it comes from, and some actions make them raise, wait or end their process. What must hold:

    - *Rows.* Every row that is delivered is the one that the model says, to the last bit, infos and totals included.
    - *Order.* A call that is not possible raises the documented error and changes nothing.
    - *Errors.* Failures come as the documented errors, exactly where envs fail.
    - *Bound.* Every call returns in time.
    - *Processes, remains.* As many processes as at first; after close no process, thread or open file is left.
    - *Ownership.* What was handed out is never written to again.

    Args:
        build: makes the vector env of these four factories in this autoreset mode, e.g.
            `lambda factories, mode: vecenv.make(factories, engine="thread", workers=2, autoreset=mode)`. It is called
            once per program.
        native: the envs are four twins of LawEnv in native code, with the parameters `index` and `bonus`; without
            infos and methods, and they cannot fail. The factories are not used.
        interrupts: raise KeyboardInterrupt inside calls; only in the main thread of Python 3.11 or later.
        modes: autoreset modes to try.
        examples: number of programs.
        steps: number of calls in each.
        bound: seconds that a call may take.
        seed: of the programs; None: always the same ones.
        shrink: look for the shortest program that fails, which takes a while.

    Returns:
        How often what happened: "programs", "calls", "rows", "refusals", errors by name, "interrupts of step", ...

    Raises:
        AssertionError: naming the law that does not hold; Hypothesis prints the shortest program it has found.
        MissingExtra: Hypothesis is not installed.
    """
    programs = _programs()
    setting = programs.Setting(build, tuple(modes), native, interrupts, bound)
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
    examples: int = 20,
    steps: int = 20,
    seed: int | None = None,
    shrink: bool = True,
) -> Counter[str]:
    """Make the same random calls on two vector envs of any envs: everything that comes back must be the same.

    Arrays are compared bit by bit, with dtype and shape; infos, totals and errors too: type, text, env, phase, action
    and seed, but not which worker it was. What an env does must depend on its seed and its actions alone.

    Args:
        one: makes a vector env of a variant, by custom the reference with engine="sync".
        other: makes the same envs with another engine.
        variants: every program is about one of these: an autoreset mode, a kind of env, what you like.
        calls: what to `call`, as (name, argument, ...).
        attributes: what to `set_attr`, and the values to choose from.
        asynchronous: they have `send` and `recv` and partial steps; False for vector envs of others.
        examples: number of programs.
        steps: number of calls in each.
        seed: of the programs; None: always the same ones.
        shrink: look for the shortest program that fails, which takes a while.

    Returns:
        How often what happened: "programs", "calls", "errors", "wrong calls".

    Raises:
        AssertionError: naming the first difference.
        MissingExtra: Hypothesis is not installed.
    """
    programs = _programs()
    pair = programs.Pair((one, other), tuple(variants), tuple(calls), dict(attributes or {}), asynchronous)
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
