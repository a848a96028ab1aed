"""Run a command from its arguments; errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from vecenv._util.suggest import did_you_mean
from vecenv.errors import ConfigError, EnvError, MissingExtra, VecenvError

COMMANDS = {
    "list": "list envs, engines and packages, and why some are not available",
    "train": "train an agent with PPO, A2C, SAC or DQN; writes to runs/NAME",
    "eval": "evaluate a checkpoint over seeds and scenarios, with intervals",
    "play": "watch a checkpoint or an env: GIF, video, terminal",
    "bench": "measure steps per second on this machine, next to other libraries",
    "check": "check whether an env is correct, and which engine suits it",
    "replay": "run a recorded failure again: compare, debug, film",
    "plot": "plot learning curves of runs, with confidence bands",
    "report": "write a run as one HTML file: curve, evaluation, settings, film",
}
_OPTIONS_OF_TRAIN = {
    "reset() begins its next episode, ": "",
    "reset() tries again, ": "",
    "on_error='restart'": "--on-error restart",
    "on_error='raise'": "--on-error raise",
    "engine='sync'": "--engine sync",
}
"""Arguments of `vecenv.make` in the advice of errors, and what they are on the command line."""
_OVERVIEW = """usage: vecenv COMMAND [OPTIONS]

Run many reinforcement-learning environments as one: train, evaluate, watch, measure.

Commands:
{commands}

Examples:
  vecenv list
  vecenv train CartPole-v1
  vecenv eval runs/CartPole-v1-ppo-1
  vecenv play runs/CartPole-v1-ppo-1
  vecenv check my_module:MyEnv

See `vecenv COMMAND --help` for options. Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted (143
by SIGTERM)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: arguments of the command line; default: those of this process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt as stop:
        print("interrupted", file=sys.stderr)
        return getattr(stop, "code", 130)  # 143 by SIGTERM
    except BrokenPipeError:  # `vecenv list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except EnvError as error:
        return _print_error(f"{_in_options(str(error), arguments[0])}\n{error.remote_traceback}".strip(), 1)
    except VecenvError as error:
        wrong = isinstance(error, ConfigError) and not isinstance(error, MissingExtra)
        return _print_error(str(error), 2 if wrong else 1)
    except OSError as error:  # files that cannot be read or written
        return _print_error(str(error), 1)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        commands = "\n".join(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items())
        print(_OVERVIEW.format(commands=commands), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from vecenv._util.version import __version__

        print(f"vecenv {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS, f"commands: {', '.join(COMMANDS)}", cutoff=0.5)
        return _print_error(f"there is no command {name!r}{hint}", 2)
    return _run(name, arguments[1:])


def _run(name: str, arguments: list[str]) -> int:
    try:
        import rich  # noqa: F401  # checked here once for all commands
        import tyro
    except ImportError as error:
        raise MissingExtra("the command line needs tyro and rich: pip install 'vecenv[cli]'") from error
    command: Any = importlib.import_module(f"vecenv.cli.{name}")
    conf = tyro.conf
    try:
        options = tyro.cli(
            command.Options,
            prog=f"vecenv {name}",
            description=_description(command.__doc__),
            args=arguments,
            config=(conf.FlagCreatePairsOff, conf.PositionalMetavarFromFieldName, conf.DisallowNone),
        )
    except SystemExit as end:  # --help, or wrong arguments: tyro has printed a message
        return end.code if isinstance(end.code, int) else 2
    from vecenv.cli._screen import Screen

    screen = Screen(options.json)
    try:
        with _prints_to_stderr() if options.json else contextlib.nullcontext():
            return command.run(options, screen)
    finally:
        screen.print_json()


@contextlib.contextmanager
def _prints_to_stderr() -> Iterator[None]:
    """Within the block, what envs print goes to stderr, from worker processes and native code too."""
    try:
        sys.stdout.flush()
        kept = os.dup(1)
    except (OSError, AttributeError):  # it is closed; Python has None then
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _description(text: str) -> str:
    """A module's docstring with its line breaks: tyro joins lines that begin with a letter."""
    head, examples = text.strip().split("\n\nExamples:\n")
    first, *others = (line for line in head.splitlines() if line)
    return "\n".join([first, *(f"  {line}" for line in others), "", "Examples:", examples])


def _in_options(message: str, command: str) -> str:
    """A message with options of `vecenv train` instead of arguments of `vecenv.make`."""
    for python, option in _OPTIONS_OF_TRAIN.items() if command == "train" else ():
        message = message.replace(python, option)
    return message


def _print_error(message: str, code: int) -> int:
    print(f"vecenv: {message}", file=sys.stderr)
    return code
