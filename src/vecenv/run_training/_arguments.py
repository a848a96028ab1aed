"""The command line's arguments and their checks."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vecenv._make.make import make
from vecenv._util.checks import positive_int
from vecenv._util.files import open_text, parsed
from vecenv.engines.registry import EngineName
from vecenv.errors import ConfigError, MissingExtra, VecenvError

Mode = Literal["vec", "packed_vec", "native"]
MODES: tuple[Mode, ...] = ("vec", "packed_vec", "native")
PROGRAM = "python -m vecenv.run_training"
_PACKAGES = ("ray", "torch", "tyro", "rich", "matplotlib")
_DESCRIPTION = """\
Train RLlib's PPO on many environments at once, and see where the time goes.

Shows return, samples per second and the times of sampling, connectors and SGD, and writes results.json, results.csv \
and a checkpoint. Ctrl-C stops after the running iteration and saves; a second Ctrl-C stops at once."""
_EXAMPLES = f"""
examples:
  {PROGRAM}
      CartPole in the fastest mode, with the defaults above
  {PROGRAM} --mode all --iterations 10
      the three modes one after another: a table and comparison.png of them side by side
  {PROGRAM} --env Pendulum-v1 --num-envs 256 --normalize-observations --lr 3e-4 --iterations 200
      continuous actions
  {PROGRAM} --env ALE/Pong-v5 --preprocessing dqn --num-envs 32 --train-batch 4096 --minibatch 512 --clip 0.1
      an Atari game
  {PROGRAM} --env-runners 2 --num-envs 512
      two actors of 512 environments each
  {PROGRAM} --train-batch 32 --batch-units packed
      the same batch as --train-batch 32768, counted in steps of all 1,024 environments together

results, in the directory of --out:
  <mode>/results.csv    one row per iteration, written when it ends
  <mode>/results.json   the arguments, versions, all rows and a summary
  <mode>/checkpoint     for RLlib's PPO.from_checkpoint, in any process
  comparison.png        with --mode all"""


@dataclass(frozen=True)
class Arguments:
    """The arguments of the command line."""

    mode: Literal["vec", "packed_vec", "native", "all"] = "native"
    """vec: RLlib's own sampling, an episode object per environment. packed_vec: RLlib sees one environment; rewards and
    flags are part of the observation. native: vecenv's own EnvRunner, the fastest. all: the three, then compared."""
    env: str = "CartPole-v1"
    """Id of a Gymnasium environment or of a kernel; package:Id imports the package first."""
    num_envs: int = 1024
    """Number of environments of each runner."""
    train_batch: int = 32768
    """Environment steps per iteration, of all runners together."""
    minibatch: int = 4096
    """Steps per gradient step. Must divide the batch."""
    batch_units: Literal["steps", "packed"] = "steps"
    """Unit of --train-batch. steps: environment steps. packed: steps of all environments together, so it is multiplied
    by --num-envs."""
    no_batch_check: bool = False
    """Turn off RLlib's own check of the configuration, and vecenv's check of batch and minibatch."""
    epochs: int = 2
    """Passes over each batch."""
    iterations: int = 20
    """Iterations to train, in each mode."""
    env_runners: int = 0
    """Number of actors that sample; 0 samples in this process."""
    seed: int = 0
    """Random seed. The same seed and mode give the same results."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    clip: float = 0.2
    """How far a gradient step may change the ratio of probabilities: PPO's clip parameter."""
    entropy: float = 0.0
    """Weight of the policy's entropy in the loss."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer of policy and value function."""
    normalize_observations: bool = False
    """Scale observations to mean zero and variance one, by running statistics."""
    preprocessing: Literal["none", "gymnasium", "dqn"] = "none"
    """Atari games: gymnasium is Gymnasium's AtariPreprocessing with four frames; dqn also clips rewards and ends
    episodes with a life."""
    engine: EngineName = "auto"
    """The engine that runs the environments; auto is the fastest one with exact results."""
    torch_threads: int = 1
    """Torch threads of the update. More are faster only for large networks, on an idle machine."""
    num_gpus_per_learner: int = 0
    """GPUs of the learner; 0 learns on the processor."""
    resume: Path | None = None
    """A checkpoint of an earlier run, <out>/<mode>/checkpoint: training goes on from its weights, optimiser and
    counts."""
    out: Path = Path("runs/{env}-{mode}-{time}")
    """Directory of the results, a sub-directory per mode."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes to run."""
        return MODES if self.mode == "all" else (self.mode,)

    @property
    def env_options(self) -> dict[str, Any]:
        """Arguments of `vecenv.make`."""
        chosen = {"none": None, "gymnasium": True, "dqn": "dqn"}[self.preprocessing]
        return {"engine": self.engine} | ({} if chosen is None else {"preprocessing": chosen})

    @property
    def batch_steps(self) -> int:
        """Environment steps per iteration."""
        return self.train_batch * (self.num_envs if self.batch_units == "packed" else 1)


def parse(argv: Sequence[str] | None = None) -> Arguments:
    """Parse the arguments.

    Args:
        argv: arguments without the program's name; default: those of this process.

    Raises:
        MissingExtra: a package is not installed.
        ConfigError: an argument is unknown or its value is not valid.
        SystemExit: --help was given; the help is printed.
    """
    for package in _PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(
                f"{PROGRAM} needs {', '.join(_PACKAGES)}: pip install 'vecenv[rllib]' ({package} is missing)"
            )
    import tyro

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                Arguments,
                prog=PROGRAM,
                description=_DESCRIPTION,
                args=argv,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as end:
        if end.code:
            raise ConfigError(_one_line(complaint.getvalue())) from None
        print(_EXAMPLES)
        raise


def _one_line(complaint: str) -> str:
    """One line from tyro's message, which is a box of several paragraphs: the first one, and the suggested options."""
    text = "\n".join(line.strip("│ ") for line in complaint.splitlines())
    _title, first, *others = re.split(r"\n[─-]+\n|╮\n|\n╰", text.removeprefix("╭─"))
    suggested = re.findall(r"(?:Perhaps|Arguments similar)[^\n]*\n(--[\w-]+)", "\n".join(others))
    hint = f" Did you mean {' or '.join(suggested)}?" if suggested else ""
    return " ".join(first.split()).removesuffix(".") + f".{hint} --help lists all."


def check(arguments: Arguments) -> None:
    """Check everything that can be checked without RLlib. Raises a VecenvError that names the argument."""
    for name in ("num_envs", "train_batch", "minibatch", "epochs", "iterations", "torch_threads"):
        positive_int(_option(name), getattr(arguments, name))
    for name, highest in (("env_runners", 10_000), ("seed", 2**31)):
        if not 0 <= getattr(arguments, name) <= highest:
            raise ConfigError(f"{_option(name)} must be an int from 0 to {highest}, got {getattr(arguments, name)}")
    if not 0 < arguments.lr < math.inf:
        raise ConfigError(f"--lr must be a finite number > 0, got {arguments.lr}")
    for name in ("gamma", "gae_lambda"):
        if not 0 <= getattr(arguments, name) <= 1:
            raise ConfigError(f"{_option(name)} must be from 0 to 1, got {getattr(arguments, name)}")
    if not 0 < arguments.clip < math.inf:
        raise ConfigError(f"--clip must be a finite number > 0, got {arguments.clip}")
    if not 0 <= arguments.entropy < math.inf:
        raise ConfigError(f"--entropy must be a finite number >= 0, got {arguments.entropy}")
    if not arguments.hidden:
        raise ConfigError("--hidden needs at least one layer, for example --hidden 64 64")
    for units in arguments.hidden:
        positive_int("--hidden", units)
    if arguments.resume is not None:
        _check_resume(arguments, arguments.resume)
    _check_gpus(arguments.num_gpus_per_learner)
    with refusing(arguments.env):
        make(arguments.env, 1, **arguments.env_options).close()


@contextlib.contextmanager
def refusing(env: str) -> Iterator[None]:
    """In this context an env that cannot be made, reset or stepped is a wrong argument: a ConfigError."""
    try:
        yield
    except ConfigError:
        raise
    except VecenvError as error:
        raise ConfigError(f"--env {env}: {error}") from error


def _check_resume(arguments: Arguments, checkpoint: Path) -> None:
    if not checkpoint.joinpath("rllib_checkpoint.json").is_file():
        raise ConfigError(f"--resume {checkpoint} is no checkpoint of RLlib; name <out>/<mode>/checkpoint")
    if arguments.mode == "all":
        raise ConfigError("--resume goes on in the mode of its checkpoint; name that mode instead of --mode all")
    try:
        with open_text(checkpoint.absolute().parent / "results.json") as file:
            before = parsed(file.read())["config"]
        names = ("env", "mode", "preprocessing", "hidden", "normalize_observations")
        run = {name: tuple(before[name]) if name == "hidden" else before[name] for name in names}
    except (OSError, ValueError, LookupError, TypeError):
        return  # the checkpoint was moved elsewhere: its run is not known
    for name, was in run.items():
        now = getattr(arguments, name)
        if was != now:
            raise ConfigError(
                f"--resume {checkpoint} is of a run with {_option(name)} {_shown(was)}, and this one has {_shown(now)}"
                "; give the same"
            )


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _check_gpus(count: int) -> None:
    if count < 0:
        raise ConfigError(f"--num-gpus-per-learner must be an int >= 0, got {count}")
    if count:
        import torch

        if torch.cuda.device_count() < count:
            raise ConfigError(
                f"--num-gpus-per-learner {count}: torch finds {torch.cuda.device_count()} GPUs; use 0, or install a "
                "torch for your GPU"
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def directory(arguments: Arguments) -> Path:
    """Create the directory of the results and return its absolute path.

    Raises:
        ConfigError: it already has results, or cannot be created.
    """
    names = {
        "env": re.sub(r"[^\w.-]", "-", arguments.env),
        "mode": arguments.mode,
        "time": time.strftime("%Y%m%d-%H%M%S"),
    }
    text = str(arguments.out.expanduser())
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    path = Path(text).absolute()
    for mode in arguments.modes:
        if (path / mode).exists():
            raise ConfigError(f"--out {text} already has results of {mode}; choose another directory")
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.joinpath(".writable").touch()
        path.joinpath(".writable").unlink()
    except OSError as error:
        raise ConfigError(f"--out {text} cannot be written to ({error}); choose another directory") from error
    return path
