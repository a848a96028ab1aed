"""Any call at any time, compared with a model: the entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
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
    try:
        from vecenv.testing import _machine_rules
    except ModuleNotFoundError as error:
        if error.name != "hypothesis":
            raise
        raise MissingExtra("random programs need Hypothesis: pip install hypothesis") from None
    setting = _machine_rules.Setting(build, tuple(modes), native, interrupts, bound)
    _machine_rules.run(setting, examples, steps, seed, shrink)
    return setting.tally
