"""`python -m vecenv.run_training`."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vecenv.errors import ConfigError, VecenvError
from vecenv.run_training._arguments import PROGRAM, Arguments, Mode, check, directory, parse, refusing
from vecenv.run_training._interrupt import EXIT_CODE, Interrupt

_REFUSED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and return the exit code: 0, 2 if an argument was refused, 130 after Ctrl-C.

    Args:
        argv: arguments without the program's name; default: those of this process.
    """
    try:
        arguments = parse(argv)
        with _quiet():
            check(arguments)
            configs = _configs(arguments)
            return _run(arguments, directory(arguments), configs)
    except VecenvError as error:
        print(f"{PROGRAM}: {' '.join(str(error).split())}", file=sys.stderr)
        return _REFUSED if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return EXIT_CODE


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings except vecenv's, and everything but errors in Ray's log."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # the future default, which Ray warns about
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", module=r"vecenv\b")
        yield


def _configs(arguments: Arguments) -> dict[Mode, Any]:
    """RLlib's configuration of each mode. This imports RLlib, which takes seconds."""
    from vecenv.run_training._training import config

    for name in ("ray", "ray.rllib", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with refusing(arguments.env):
        return {mode: config(arguments, mode) for mode in arguments.modes}


def _run(arguments: Arguments, path: Path, configs: dict[Mode, Any]) -> int:
    from vecenv.run_training._display import comparison, display
    from vecenv.run_training._plot import plot
    from vecenv.run_training._results import Run
    from vecenv.run_training._training import running_ray, train

    show = display(arguments)
    runs: list[Run] = []
    with Interrupt(show.stopping, show.abandon) as interrupt:
        with show, running_ray(arguments):
            for mode, config in configs.items():
                if not interrupt.asked:
                    runs.append(Run(mode))
                    train(arguments, config, runs[-1], path / mode, show, interrupt)
        begun = [run for run in runs if run.rows]
        if arguments.mode == "all" and begun:
            plot(arguments, begun, path / "comparison.png")
            show.print(comparison(arguments, begun))
        show.print(f"{'stopped; results so far' if interrupt.asked else 'results'}: {path}")
        return EXIT_CODE if interrupt.asked else 0


if __name__ == "__main__":
    sys.exit(main())
