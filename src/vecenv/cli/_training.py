"""The work of `vecenv train`; imported once torch is needed."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vecenv.agents import MultiAgentVectorEnv
from vecenv.atari import Preprocessing
from vecenv.cli._agents import MASK
from vecenv.cli._curves import curve_of, draw_curves, read_episodes
from vecenv.cli._options import MAKE_OPTIONS, pairs, screens
from vecenv.cli._run_files import RunFiles, new_run
from vecenv.cli._screen import Screen, short, sparkline
from vecenv.cli._self_play import Opponents, acts_by_turns, evaluate
from vecenv.cli._signals import StopRequest, interrupted_by_sigterm, stop_request
from vecenv.cli._sources import (
    Checkpoint,
    EnvSource,
    acting,
    env_of,
    find_checkpoint,
    find_env,
    load_trainer,
    runs_python,
    usual_screens,
)
from vecenv.engines.recording.episodes import versions
from vecenv.errors import ConfigError, EnvError, SpaceError, VecenvError
from vecenv.evaluation._plot import need_matplotlib
from vecenv.presets import find_preset, make_options_for, presets_for
from vecenv.trainers import DQN, PPO, SAC, GroupPPO, PeriodicEvaluation, a2c
from vecenv.trainers._settings import settings_of

TRAINERS: dict[str, Any] = {"ppo": PPO, "a2c": PPO, "sac": SAC, "dqn": DQN}
_USUAL_STEPS = 100_000
_SOONER = 10
"""A checkpoint that could not be written is tried again after this fraction of the steps between two checkpoints."""
BEST = "best.npz"
_ABOUT_FAILURES = ("timeout", "on_error", "record")
"""Options of `make` that evaluations have too, and that a run which continues may be given."""
_USUAL = (None, False, "raise")
"""Values of options of `make` that need not be stored."""
_REPORT = 100
"""Steps of SAC and DQN between two updates of the display, and checks for Ctrl-C."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A run that starts or continues.

    Attributes:
        steps: where it is to end.
        made_with: arguments of `make`, by the names of MAKE_OPTIONS.
        engine: the name that was asked for, or "auto".
        opponents: of self-play; None without.
    """

    trainer: Any
    source: EnvSource
    files: RunFiles
    algo: str
    steps: int
    made_with: Mapping[str, Any]
    engine: Any
    opponents: Opponents | None = None

    @property
    def evaluated_with(self) -> dict[str, Any]:
        """Options of `make` for evaluations: what to do about failures as in training, on the engine that does it."""
        found = {name: value for name, value in _for_make(self.made_with).items() if name in _ABOUT_FAILURES}
        return {**({"engine": self.engine} if found or runs_python(self.engine) else {}), **found}

    @property
    def again(self) -> str:
        """The run as an argument of a command that goes on with it."""
        return f"{self.files.path}{' --trust' if self.source.imports else ''}"

    def close(self) -> None:
        """Close envs and files."""
        self.trainer.close()
        self.files.close()


def new_job(options: Any) -> Job:
    """A new run, as the options say."""
    need_matplotlib()
    kwargs, given = pairs(options.kwargs, "--kwargs"), screens(options.preprocessing)
    source = find_env(options.env, kwargs, usual_screens(options.env, kwargs) if given is None else given)
    algo = _algorithm(options, source)
    config = _settings(options, algo, source)
    made_with = _make_options(options, source)
    opponents = _opponents(source, options, config, made_with)
    trainer = _trainer(algo, source, options, config, made_with, opponents)
    preset = find_preset(algo, source.name)
    steps = options.steps or (preset.steps if preset else _USUAL_STEPS)
    about = {
        "env": source.name,
        "kwargs": dict(source.kwargs),
        "algo": algo,
        "seed": options.seed,
        "steps": steps,
        "engine": options.engine,
        "engine_reason": trainer.collector.engine_reason,
        "make": made_with,
        "self_play": opponents is not None,
        "config": config.as_data(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    try:
        path = new_run(options.runs_dir, options.name, f"{source.title}-{algo}", options.overwrite)
        return Job(trainer, source, RunFiles(path, about), algo, steps, made_with, options.engine, opponents)
    except BaseException:
        trainer.close()
        raise


def continued_job(checkpoint: Checkpoint, options: Any) -> Job:
    """A run that continues from a checkpoint."""
    about = checkpoint.config
    assert checkpoint.run is not None
    newest = find_checkpoint(str(checkpoint.run)).path
    if newest.resolve() != checkpoint.path.resolve():
        raise ConfigError(f"the run has a newer checkpoint, {newest}; continue from that, or remove it")
    source = env_of(checkpoint, None, {}, options.trust)
    changes = {name: getattr(options, name) for name in _ABOUT_FAILURES}
    changes = {name: value for name, value in changes.items() if value not in _USUAL}
    made_with = {**_stored_make_options(about), **changes}
    steps = options.steps or int(about["steps"])
    opponents: list[Opponents] = []

    def envs(config: Any) -> Any:
        if not about.get("self_play"):
            return _envs(source, about["engine"], config, made_with)
        opponents.append(_self_play(source, about["engine"], config, made_with, about["seed"]))
        return opponents[0].game

    trainer = load_trainer(checkpoint, envs, options.device, own_envs=bool(changes))
    if trainer.steps >= steps:
        trainer.close()
        raise ConfigError(f"{checkpoint.path} has already made {trainer.steps:,} steps; set more with --steps")
    files = RunFiles(checkpoint.run, about, trainer.collector.episodes.ended)
    league = opponents[0] if opponents else None
    return Job(trainer, source, files, about["algo"], steps, made_with, about["engine"], league)


def _algorithm(options: Any, source: EnvSource) -> str:
    """The algorithm that the options say, or the one that vecenv has settings for, or PPO."""
    return next(iter(presets_for(source.name)), "ppo") if options.algo == "auto" else options.algo


def _opponents(source: EnvSource, options: Any, config: Any, made_with: dict[str, Any]) -> Opponents | None:
    """Those of self-play, if it is asked for or agents act by turns."""
    if options.shared_policy:
        if options.self_play:
            raise ConfigError("--self-play lets one agent learn, --shared-policy all of them; leave one out")
        return None
    if not options.self_play and not (isinstance(source.env, str) and acts_by_turns(source)):
        return None
    if options.eval_every is not None:
        raise ConfigError("--eval-every lets one policy play all agents, which says nothing of self-play; leave it out")
    return _self_play(source, options.engine, config, made_with, options.seed)


def _self_play(source: EnvSource, engine: Any, config: Any, made_with: dict[str, Any], seed: int) -> Opponents:
    envs = source.make(config.num_envs, engine=engine, autoreset="same-step", **_for_make(made_with))
    try:
        if not isinstance(envs, MultiAgentVectorEnv):
            raise ConfigError(f"--self-play is for several agents; {source.name} has one")
        return Opponents(envs, seed)
    except BaseException:
        envs.close()
        raise


def _trainer(
    algo: str, source: EnvSource, options: Any, config: Any, made_with: dict[str, Any], opponents: Opponents | None
) -> Any:
    envs = _envs(source, options.engine, config, made_with) if opponents is None else [opponents.game]
    try:
        return _trainer_class(algo, source, envs)(envs, config, options.seed, device=options.device)
    except BaseException as error:
        for one in () if isinstance(envs, str) else envs:
            one.close()
        if isinstance(error, SpaceError):  # an algorithm that cannot act in this env
            raise ConfigError(f"--algo {algo} does not fit {source.name}: {error}") from error
        raise


def _trainer_class(algo: str, source: EnvSource, envs: Any) -> Any:
    """The class of an algorithm; for groups of agents, the one with a policy for each."""
    cls = TRAINERS[algo]
    several = len(source.groups()) > 1 if isinstance(envs, str) else _has_groups(envs[0])
    if not several:
        return cls
    if cls is not PPO:
        raise ConfigError(f"--algo {algo} has one policy; {source.name} has several groups of agents: use --algo ppo")
    return GroupPPO


def _has_groups(envs: Any) -> bool:
    return isinstance(envs, MultiAgentVectorEnv) and len(envs.groups) > 1


def _make_options(options: Any, source: EnvSource) -> dict[str, Any]:
    """Options of `vecenv.make`, as config.json stores them."""
    given = {name: getattr(options, name) for name in MAKE_OPTIONS} | {"preprocessing": None, **source.options}
    return {name: value for name, value in given.items() if value not in _USUAL}


def _for_make(made_with: Mapping[str, Any]) -> dict[str, Any]:
    """Options as `vecenv.make` takes them, from those that config.json stores."""
    return {**made_with, **({"record": "last-episode"} if made_with.get("record") else {})}


def _stored_make_options(about: dict[str, Any]) -> dict[str, Any]:
    stored = about.get("make", {})
    if not isinstance(stored, dict) or not stored.keys() <= set(MAKE_OPTIONS):
        raise ConfigError(f"config.json is damaged: 'make' must have names of {', '.join(MAKE_OPTIONS)}")
    return stored


def carry_out(job: Job, options: Any, screen: Screen) -> int:
    """Train, evaluate, plot, record, and print the result."""
    with stop_request(lambda: screen.note("stopping and saving; a second signal (Ctrl-C) stops at once")) as stop:
        screen.note(f"{job.files.path}: {_describe(job)}")
        try:
            learnt = _learn(job, options, screen, stop)
            stop.end()
        except BaseException as error:
            stop.end()
            _rescue(job, screen, error)
            raise
        return _finish(job, options, screen, stop, learnt)


def _finish(job: Job, options: Any, screen: Screen, stop: StopRequest, learnt: dict[str, Any]) -> int:
    """Save, evaluate, plot, record, print the result; return the exit code."""
    made: dict[str, Path] = {}
    failed: set[str] = set()

    def keep(name: str, write: Callable[[], Path | None]) -> None:
        """Write a file of the run. A failure (a full disk, an env that cannot be drawn) is reported, no more."""
        try:
            path = write()
        except (OSError, VecenvError) as error:
            screen.note(f"there is no {name}: {error}")
            failed.add(name)
            return
        failed.discard(name)
        if path is not None:
            made[name] = path

    keep("checkpoint", lambda: job.files.save(job.trainer))
    result: dict[str, Any] = {
        "env": job.source.name,
        "algo": job.algo,
        "run": job.files.path,
        "stopped": bool(stop),
        "asked": {"steps": job.steps, "until": options.until},
        **learnt,
    }
    failure = _after_training(job, options, screen, stop, keep, result)
    if "checkpoint" in failed:  # there may be room by now
        keep("checkpoint", lambda: job.files.save(job.trainer))
    result["files"] = {name: str(path) for name, path in made.items()}
    keep("result", lambda: job.files.write_json("result.json", result))
    screen.answer(result, _summary(result))
    if failure is not None:
        _explain(job, screen, failure, result["stopped"], saved="checkpoint" not in failed)
        raise failure
    for advice in (_advice(job, stop), f"continue with: {_train_again(job)}" if stop else None):
        if advice:
            screen.note(advice)
    return stop.code or int(bool(failed))


def _after_training(
    job: Job,
    options: Any,
    screen: Screen,
    stop: StopRequest,
    keep: Callable[[str, Callable[[], Path | None]], None],
    result: dict[str, Any],
) -> BaseException | None:
    """Draw, evaluate and record. Return what ended this early: an exception or a signal; None: nothing."""
    try:
        with interrupted_by_sigterm():
            with screen.waiting("drawing"):  # first, because it needs no env: what fails below does not cost the curve
                keep("curve", lambda: _draw(job))
            if not stop and options.eval_episodes:
                if not result["episodes"]:
                    screen.note("no episode ended in training, so the evaluation may take longer; Ctrl-C leaves it out")
                result["evaluation"] = _evaluate(job, options.eval_episodes, screen)
            if options.gif and not stop:
                keep("gif", lambda: _record(job, screen))
    except BaseException as error:
        return error
    return None


def _explain(job: Job, screen: Screen, error: BaseException, stopped: bool, saved: bool) -> None:
    """After what ended the work that follows training: say whether the agent is saved, and the commands to go on."""
    interrupted = isinstance(error, KeyboardInterrupt)
    what = "interrupted" if interrupted else type(error).__name__
    if not saved:
        screen.note(f"{what}{'' if interrupted else ' after training'}; the agent is not saved")
    elif not stopped:
        screen.note(f"{what} after training; the agent is saved in {job.files.path}")
        screen.note(f"evaluate it with: vecenv eval {job.again}")
    if saved:
        screen.note(f"continue with: {_train_again(job)}")
    _name_options(job, screen, error)


def _train_again(job: Job) -> str:
    """The command that continues the run; a run that has made all of its steps needs more of them."""
    return f"vecenv train {job.again}{f' --steps {2 * job.steps}' if job.trainer.steps >= job.steps else ''}"


def _rescue(job: Job, screen: Screen, error: BaseException) -> None:
    """Save what was learnt before an error, and say how to continue and how to look at the failure."""
    try:
        saved = f"saved {job.files.save(job.trainer)}"
        how = f"continue with: vecenv train {job.again}"
    except Exception as second:  # the first error is the one to report
        saved, how = f"there is no checkpoint of this moment: {second}", None
    what = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__} in training"
    screen.note(f"{what}; {saved}")
    if how:
        screen.note(how)
    _name_options(job, screen, error)


def _name_options(job: Job, screen: Screen, error: BaseException) -> None:
    """Without a recording of a failed env, name the options that help; with one, the error says how to replay it."""
    unused = not {"record", "on_error"} <= job.made_with.keys()
    if isinstance(error, EnvError) and error.recording is None and unused:
        ideas = {"record": "--record to replay such a failure", "on_error": "--on-error restart to go on without it"}
        screen.note(
            f"continue with {', with '.join(idea for name, idea in ideas.items() if name not in job.made_with)}"
        )


def _advice(job: Job, stop: StopRequest) -> str | None:
    """What to try if the return never rose; None if it did, or if there is too little to tell."""
    returns = read_episodes(job.files.path).returns
    returns = returns[np.isfinite(returns)]
    part = len(returns) // 10
    if stop or part < 5 or job.trainer.diverged:
        return None
    parts = [stretch.mean() for stretch in np.array_split(returns, 10)]
    spread = np.std(returns[:part]) / np.sqrt(part)
    if max(parts[1:]) > parts[0] + 2 * spread:
        return None
    config = job.trainer.config
    others = [algo for algo in presets_for(job.source.name) if algo != job.algo]
    off = [f"{name}=True" for name in ("normalize_obs", "normalize_reward") if not getattr(config, name)]
    if getattr(config, "stack", None) is not None:  # frames that are stored once cannot be normalized
        off.remove("normalize_obs=True")
    ideas = [
        f"--algo {others[0]}" if others else "",
        f"more steps (--steps {2 * job.steps})",
        f"--set {' '.join(off)}" if off else "",
        "--set entropy=0.01" if job.algo in ("ppo", "a2c") and config.entropy == 0 else "",
    ]
    return (
        f"the return never rose: {parts[0]:.1f} in the first tenth of the episodes, {parts[-1]:.1f} in the last; try "
        + ", or ".join(idea for idea in ideas if idea)
    )


def _learn(job: Job, options: Any, screen: Screen, stop: StopRequest) -> dict[str, Any]:
    """Train with a display; return what was reached."""
    trainer, steps_before = job.trainer, job.trainer.steps
    every = max(1, -(-(job.steps - steps_before) // options.checkpoints))
    next_save, history, last = steps_before + every, [], None
    evaluations, evaluated = _evaluations(job, options), 0.0
    agents = trainer.collector.num_agents
    with screen.progress(job.source.title, job.steps, "steps") as bar:
        bar.begin(steps_before)

        def tell(progress: Any) -> bool:
            nonlocal next_save, last, evaluated
            last, evaluated = progress, sum(one.seconds for one in evaluations)
            job.files.note(progress)
            history.append(progress.mean_return)
            shown = f"return{_of_each(agents)} {progress.mean_return:.1f} {sparkline(history)}"
            bar.update(min(progress.steps, job.steps), shown if progress.episodes else "")
            if next_save <= progress.steps < job.steps:
                try:
                    job.files.save(trainer)
                    next_save += every
                except OSError as error:
                    screen.note(f"there is no checkpoint yet: {error}; training goes on and tries again, make room")
                    next_save = progress.steps + every // _SOONER
            enough = options.until is not None and progress.episodes >= 100 and progress.mean_return >= options.until
            return not (stop or enough)

        more = [] if job.opponents is None else [job.opponents.adds(steps_before, job.steps)]
        trainer.learn(job.steps, [tell, *more, *evaluations], loggers=_EvalCurves(job.files))
    assert last is not None
    return {
        "steps": trainer.steps,
        "steps_before": steps_before,
        "seconds": last.seconds,
        "steps_per_second": last.steps_per_second,
        "episodes": last.episodes,
        "return": last.mean_return,
        "agents": agents,
        "time": {**last.time, **({"evaluation": evaluated / last.seconds} if evaluations else {})},
    }


def _of_each(agents: int) -> str:
    """Whose returns those of training episodes are; evaluations have those of all agents together."""
    return " of each agent" if agents > 1 else ""


class _EvalCurves:
    """The logger of evaluations during training; the other curves are written by `RunFiles.note`."""

    def __init__(self, files: RunFiles) -> None:
        self._files = files

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        own = {name: value for name, value in scalars.items() if name.startswith("eval/")}
        if own:
            self._files.scalars(step, own)

    def close(self) -> None:
        """The run's files are closed with the run."""


def _evaluations(job: Job, options: Any) -> list[PeriodicEvaluation]:
    """The callback of --eval-every."""
    if options.eval_every is None:
        return []
    return [
        PeriodicEvaluation(
            options.eval_every, job.source.env, episodes=options.eval_episodes or 10, best=job.files.path / BEST,
            env_kwargs=job.source.kwargs or None, **job.source.options, **job.evaluated_with,
        )
    ]  # fmt: skip


def _evaluate(job: Job, episodes: int, screen: Screen) -> dict[str, Any]:
    """Evaluate the agent in episodes that it was not trained on."""
    if job.opponents is not None:
        with screen.progress("evaluation", episodes, "episodes") as bar, acting(job.trainer.policy) as policy:
            return evaluate(policy, job.source, episodes, bar.update, **job.evaluated_with)
    with screen.progress("evaluation", episodes, "episodes") as bar, acting(job.trainer.policy) as policy:
        found = job.source.evaluate(
            policy, episodes=episodes, progress=lambda ended, _: bar.update(ended), **job.evaluated_with
        )
    row = found.summary[0]
    job.files.scalars(job.trainer.steps, {"eval/mean_reward": row.mean, "eval/mean_ep_length": row.length})
    iqm = {"iqm": row.iqm, "iqm_low": row.iqm_low, "iqm_high": row.iqm_high}
    means = {"mean": row.mean, "low": row.mean_low, "high": row.mean_high}
    return {"episodes": row.episodes, "cut": found.cut, **means, **iqm}


def _draw(job: Job) -> Path | None:
    episodes = read_episodes(job.files.path)
    if not len(episodes.steps):
        return None
    path = job.files.path / "curve.png"
    draw_curves([curve_of(episodes.label, [episodes])], path, f"{job.source.title}, {job.algo.upper()}")
    return path


def _record(job: Job, screen: Screen) -> Path:
    from vecenv.cli._frames import GifFile
    from vecenv.cli._playing import play

    path = job.files.path / "play.gif"
    with screen.progress("recording", 1, "episodes") as bar, acting(job.trainer.policy) as policy:
        play(job.source, policy, lambda fps: GifFile(path, fps), progress=bar)
    return path


def _summary(result: dict[str, Any]) -> str:
    """The result in one line."""
    made, in_all = result["steps"] - result["steps_before"], f", {result['steps']:,} in all"
    rate = f"{made:,} steps in {result['seconds']:.1f} s ({short(result['steps_per_second'])} steps/s)"
    rate += in_all if result["steps_before"] else ""
    found = result.get("evaluation")
    if found is not None:
        against = f" against {found['against']}" if "against" in found else ""
        together = " of all agents together" if result["agents"] > 1 else ""
        episodes = f"{found['episodes']} new episode{'s' * (found['episodes'] != 1)}"
        cut = f" ({found['cut']:,} without an end)" if found.get("cut") else ""
        returns = f"return {found['mean']:.1f}{together} over {episodes}{cut}{against}"
    elif result["episodes"]:
        returns = f"return {result['return']:.1f}{_of_each(result['agents'])} over the last episodes"
    else:
        returns = "no episode ended"
    stopped = "; stopped and saved" if result["stopped"] else ""
    names = ", ".join(Path(path).name for name, path in result["files"].items() if name != "checkpoint")
    shown = f": {names}" if names else ""
    return f"{result['env']} {result['algo'].upper()}: {rate}, {returns}{stopped}; see {result['run']}{shown}"


def _describe(job: Job) -> str:
    collector = job.trainer.collector
    each = f" with {collector.num_agents} agents each" if collector.num_agents > 1 else ""
    count = collector.num_envs // collector.num_agents
    steps = f"{job.steps:,} steps{' of agents' if each else ''} ({collector.engine_reason})"
    return f"{job.algo.upper()} on {count} {job.source.title}{each}, {steps}"


def _envs(source: EnvSource, engine: Any, config: Any, made_with: dict[str, Any]) -> Any:
    """The trainer's envs: the id, if the trainer makes the same of it (checkpoints store it), or vector envs."""
    plain = isinstance(source.env, str) and not source.kwargs and engine == "auto"
    if plain and made_with == make_options_for(source.env):
        return source.env
    groups = getattr(config, "groups", 1)
    if config.num_envs % groups:
        raise ConfigError(f"{config.num_envs} envs cannot be split into {groups} equal groups")
    made, count = _for_make(made_with), config.num_envs // groups
    return [source.make(count, engine=engine, autoreset="same-step", copy=False, **made) for _ in range(groups)]


def _settings(options: Any, algo: str, source: EnvSource) -> Any:
    """The trainer's settings: the defaults for this env, with the options."""
    usual = a2c() if algo == "a2c" else TRAINERS[algo].defaults_for(source.name)
    changes = settings_of(type(usual), pairs(options.set, "--set"))
    if getattr(usual, "stack", None) is not None:  # frames in an observation of a game
        chosen = source.options.get("preprocessing")
        changes.setdefault("stack", None if chosen is None else Preprocessing.parse(chosen).frame_stack)
    if algo in ("sac", "dqn"):
        changes.setdefault("report", _REPORT)
    if options.envs is not None:
        changes["num_envs"] = options.envs
    if getattr(usual, "mask", MASK) is None and "mask" not in changes and source.shows_masks():
        changes["mask"] = MASK
    try:
        return dataclasses.replace(usual, **changes)
    except ConfigError as error:
        raise ConfigError(f"--set {error}") from error
