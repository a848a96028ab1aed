"""The work of `vecenv train`; imported once torch is needed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vecenv
from vecenv._util.suggest import did_you_mean
from vecenv.cli._curves import curve_of, draw_curves, read_episodes
from vecenv.cli._options import pairs
from vecenv.cli._run_files import RunFiles, new_run
from vecenv.cli._screen import Screen, short, sparkline
from vecenv.cli._signals import StopRequest, stop_request
from vecenv.cli._sources import Checkpoint, EnvSource, acting, env_of, find_checkpoint, find_env, load_trainer
from vecenv.engines.recording.episodes import versions
from vecenv.errors import ConfigError, VecenvError
from vecenv.evaluation._plot import need_matplotlib
from vecenv.trainers import PPO, SAC, a2c

STEPS = {
    ("ppo", "CartPole-v1"): 100_000,
    ("ppo", "Acrobot-v1"): 400_000,
    ("ppo", "Pendulum-v1"): 600_000,
    ("sac", "Pendulum-v1"): 12_000,
}
_USUAL_STEPS = 100_000
_SOONER = 10
"""A checkpoint that could not be written is tried again after this fraction of the steps between two checkpoints."""
_REPORT = 100
"""Steps of SAC between two updates of the display, and checks for Ctrl-C."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A run that starts or continues."""

    trainer: Any
    source: EnvSource
    files: RunFiles
    algo: str
    steps: int

    def close(self) -> None:
        """Close envs and files."""
        self.trainer.close()
        self.files.close()


def new_job(options: Any) -> Job:
    """A new run, as the options say."""
    need_matplotlib()
    source = find_env(options.env, pairs(options.kwargs, "--kwargs"))
    config = _settings(options, source)
    trainer = (SAC if options.algo == "sac" else PPO)(_envs(source, options.engine, config), config, options.seed)
    steps = options.steps or STEPS.get((options.algo, source.name), _USUAL_STEPS)
    envs: Any = trainer.collector.envs[0].unwrapped
    about = {
        "env": source.name,
        "kwargs": dict(source.kwargs),
        "algo": options.algo,
        "seed": options.seed,
        "steps": steps,
        "engine": options.engine,
        "engine_reason": envs.engine_reason,
        "config": dataclasses.asdict(config),
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
    }
    try:
        path = new_run(options.runs_dir, options.name, f"{source.title}-{options.algo}", options.overwrite)
        return Job(trainer, source, RunFiles(path, about), options.algo, steps)
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
    steps = options.steps or int(about["steps"])
    trainer = load_trainer(checkpoint, lambda config: _envs(source, about["engine"], config))
    if trainer.steps >= steps:
        trainer.close()
        raise ConfigError(f"{checkpoint.path} has already made {trainer.steps:,} steps; set more with --steps")
    files = RunFiles(checkpoint.run, about, trainer.collector.episodes.ended)
    return Job(trainer, source, files, about["algo"], steps)


def carry_out(job: Job, options: Any, screen: Screen) -> int:
    """Train, evaluate, plot, record, and print the result."""
    screen.note(f"{job.files.path}: {_describe(job)}")
    with stop_request(lambda: screen.note("stopping and saving; Ctrl-C again stops at once")) as stop:
        learnt = _learn(job, options, screen, stop)
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
        **learnt,
    }
    if not stop and options.eval_episodes:
        result["evaluation"] = _evaluate(job, options.eval_episodes, screen)
    with screen.waiting("drawing"):
        keep("curve", lambda: _draw(job))
    if options.gif and not stop:
        keep("gif", lambda: _record(job, screen))
    if "checkpoint" in failed:  # there may be room by now
        keep("checkpoint", lambda: job.files.save(job.trainer))
    result["files"] = {name: str(path) for name, path in made.items()}
    keep("result", lambda: job.files.write_json("result.json", result))
    screen.answer(result, _summary(result))
    return stop.code or int(bool(failed))


def _learn(job: Job, options: Any, screen: Screen, stop: StopRequest) -> dict[str, Any]:
    """Train with a display; return what was reached."""
    trainer, steps_before = job.trainer, job.trainer.steps
    every = max(1, -(-(job.steps - steps_before) // options.checkpoints))
    next_save, history, last = steps_before + every, [], None
    with screen.progress(job.source.title, job.steps, "steps") as bar:
        bar.begin(steps_before)

        def tell(progress: Any) -> bool:
            nonlocal next_save, last
            last = progress
            job.files.note(progress)
            history.append(progress.mean_return)
            shown = f"return {progress.mean_return:.1f} {sparkline(history)}" if progress.episodes else ""
            bar.update(min(progress.steps, job.steps), shown)
            if next_save <= progress.steps < job.steps:
                try:
                    job.files.save(trainer)
                    next_save += every
                except OSError as error:
                    screen.note(f"there is no checkpoint yet: {error}; training goes on and tries again, make room")
                    next_save = progress.steps + every // _SOONER
            enough = options.until is not None and progress.episodes >= 100 and progress.mean_return >= options.until
            return not (stop or enough)

        trainer.learn(job.steps, tell)
    assert last is not None
    return {
        "steps": trainer.steps,
        "steps_before": steps_before,
        "seconds": last.seconds,
        "steps_per_second": last.steps_per_second,
        "episodes": last.episodes,
        "return": last.mean_return,
        "time": last.time,
    }


def _evaluate(job: Job, episodes: int, screen: Screen) -> dict[str, Any]:
    """Evaluate the agent in episodes that it was not trained on."""
    with screen.progress("evaluation", episodes, "episodes") as bar, acting(job.trainer.policy) as policy:
        found = vecenv.evaluation.evaluate(
            policy, job.source.env, episodes=episodes, env_kwargs=job.source.kwargs or None,
            progress=lambda ended, _: bar.update(ended),
        )  # fmt: skip
    row = found.summary[0]
    job.files.scalars(job.trainer.steps, {"eval/mean_reward": row.mean, "eval/mean_ep_length": row.length})
    return {"episodes": row.episodes, "mean": row.mean, "low": row.mean_low, "high": row.mean_high, "iqm": row.iqm}


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
        returns = f"return {found['mean']:.1f} over {found['episodes']} new episodes"
    elif result["episodes"]:
        returns = f"return {result['return']:.1f} over the last episodes"
    else:
        returns = "no episode ended"
    stopped = "; stopped and saved" if result["stopped"] else ""
    names = ", ".join(Path(path).name for name, path in result["files"].items() if name != "checkpoint")
    shown = f": {names}" if names else ""
    return f"{result['env']} {result['algo'].upper()}: {rate}, {returns}{stopped}; see {result['run']}{shown}"


def _describe(job: Job) -> str:
    envs = job.trainer.collector
    reason = envs.envs[0].unwrapped.engine_reason
    return f"{job.algo.upper()} on {envs.num_envs} {job.source.title}, {job.steps:,} steps ({reason})"


def _envs(source: EnvSource, engine: Any, config: Any) -> Any:
    """The trainer's envs: the id, which it stores in checkpoints, or vector envs."""
    if source.id is not None and engine == "auto":
        return source.id
    groups = getattr(config, "groups", 1)
    if config.num_envs % groups:
        raise ConfigError(f"{config.num_envs} envs cannot be split into {groups} equal groups")
    count = config.num_envs // groups
    return [source.make(count, engine=engine, autoreset="same-step", copy=False) for _ in range(groups)]


def _settings(options: Any, source: EnvSource) -> Any:
    """The trainer's settings: the defaults for this env, with the options."""
    if options.algo == "sac":
        usual = SAC.defaults_for(source.name)
    else:
        usual = a2c() if options.algo == "a2c" else PPO.defaults_for(source.name)
    changes = _checked(type(usual), pairs(options.set, "--set"))
    if options.algo == "sac":
        changes.setdefault("report", _REPORT)
    if options.envs is not None:
        changes["num_envs"] = options.envs
    return dataclasses.replace(usual, **changes)


def _checked(config: type, changes: dict[str, Any]) -> dict[str, Any]:
    """Settings by name, with values of the right type."""
    hints = typing.get_type_hints(config)
    for name, value in changes.items():
        if name not in hints:
            hint = did_you_mean(name, hints, f"settings: {', '.join(hints)}")
            raise ConfigError(f"there is no setting {name!r}{hint}")
        allowed = typing.get_args(hints[name]) or (hints[name],)
        if isinstance(value, float) and int in allowed and float not in allowed and value.is_integer():
            changes[name] = value = int(value)  # 1e6
        kinds = tuple(kind for kind in allowed if isinstance(kind, type))
        if typing.get_origin(hints[name]) is tuple:
            fits = isinstance(value, (tuple, list)) and all(isinstance(item, int) for item in value)
        elif kinds:
            wanted = (*kinds, int) if float in kinds else kinds
            fits = isinstance(value, wanted) and (bool in kinds or not isinstance(value, bool))
        else:  # one of several names
            fits = value in allowed
        if not fits:
            wanted = (
                str(hints[name]).replace("typing.", "") if not isinstance(hints[name], type) else hints[name].__name__
            )
            raise ConfigError(f"--set {name} must be {wanted}, got {json.dumps(value)}")
    return changes
