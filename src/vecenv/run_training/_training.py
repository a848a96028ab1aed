"""The training: RLlib's configuration, starting and stopping Ray, the loop."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray
import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EPISODE_RETURN_MAX,
    EPISODE_RETURN_MEAN,
    EPISODE_RETURN_MIN,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
)

from vecenv.rllib import configure
from vecenv.run_training._arguments import Arguments, Mode
from vecenv.run_training._display import Lines, LiveTable
from vecenv.run_training._interrupt import Interrupt
from vecenv.run_training._results import Row, Run, RunWriter, number
from vecenv.run_training._timers import SecondsSinceReading, split

_STORE_BYTES, _STORE_BYTES_OF_ACTORS = 128 * 2**20, 1024 * 2**20


def config(arguments: Arguments, mode: Mode) -> PPOConfig:
    """PPO for one mode, checked; Ray is not started. Raises ConfigError if settings contradict each other."""
    ppo = PPOConfig()
    ppo.training(
        lr=arguments.lr,
        gamma=arguments.gamma,
        lambda_=arguments.gae_lambda,
        clip_param=arguments.clip,
        entropy_coeff=arguments.entropy,
        num_epochs=arguments.epochs,
        use_kl_loss=False,
        vf_loss_coeff=0.5,
        vf_clip_param=float("inf"),
        grad_clip=0.5,
    )
    ppo.rl_module(
        model_config=DefaultModelConfig(
            fcnet_hiddens=list(arguments.hidden), fcnet_activation="tanh", vf_share_layers=False
        )
    )
    # If an actor were restarted, the run would not be the requested one.
    ppo.fault_tolerance(restart_failed_env_runners=False)
    ppo.debugging(seed=arguments.seed, log_level="ERROR")
    configure(
        ppo,
        arguments.env,
        arguments.num_envs,
        mode=mode,
        train_batch=arguments.train_batch,
        minibatch=arguments.minibatch,
        batch_units=arguments.batch_units,
        batch_check=not arguments.no_batch_check,
        env_runners=arguments.env_runners,
        normalize_observations=arguments.normalize_observations,
        **arguments.env_options,
    )
    ppo.learners(num_gpus_per_learner=arguments.num_gpus_per_learner)
    stats: dict[str, Any] = ppo.stats_cls_lookup  # type: ignore[assignment]  # declared as None, but a dict
    return ppo.reporting(
        metrics_num_episodes_for_smoothing=arguments.batch_steps,  # all episodes of the iteration, in every mode
        custom_stats_cls_lookup={**stats, "ema": SecondsSinceReading},
    )


@contextlib.contextmanager
def running_ray(arguments: Arguments) -> Iterator[None]:
    """Start Ray on this machine, with a core per actor, and stop it in any case; or use the one that is running."""
    torch.set_num_threads(arguments.torch_threads)
    if ray.is_initialized():
        yield
        return
    ray.init(
        address="local",
        num_cpus=arguments.env_runners + 1,
        num_gpus=arguments.num_gpus_per_learner,
        include_dashboard=False,
        object_store_memory=_STORE_BYTES_OF_ACTORS if arguments.env_runners else _STORE_BYTES,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    try:
        yield
    finally:
        ray.shutdown()


def train(
    arguments: Arguments, ppo: PPOConfig, run: Run, path: Path, show: Lines | LiveTable, interrupt: Interrupt
) -> None:
    """Train one mode until it is done or Ctrl-C, and save a checkpoint. Results are written even if it fails."""
    writer = RunWriter(path)
    show.begin(run)
    try:
        with _algorithm(ppo) as algorithm:
            if arguments.resume is not None:
                algorithm.restore_from_path(str(arguments.resume.absolute()))
                algorithm.learner_group.foreach_learner(_set_learning_rate)  # type: ignore[union-attr]
            started = time.perf_counter()
            while len(run.rows) < arguments.iterations and not interrupt.asked:
                before = time.perf_counter()
                result = algorithm.train()
                now = time.perf_counter()
                run.rows.append(_row(len(run.rows) + 1, result, now - before, now - started))
                writer.add(run.rows[-1])
                show.update(run)
            algorithm.save_to_path(str(path / "checkpoint"))
        run.ending = "finished" if len(run.rows) == arguments.iterations else "interrupted"
    finally:
        writer.finish(arguments, run)


def _set_learning_rate(learner: Any) -> None:
    """A checkpoint's optimiser has its own rate, which RLlib replaces by the config's after the first iteration."""
    for optimizer in learner._named_optimizers.values():
        learner._set_optimizer_lr(optimizer, learner.config.lr)


@contextlib.contextmanager
def _algorithm(ppo: PPOConfig) -> Iterator[PPO]:
    algorithm: Any = ppo.build_algo()
    try:
        yield algorithm
    finally:
        algorithm.stop()
        with contextlib.suppress(OSError):  # RLlib creates a directory in the user's home and leaves it empty
            os.rmdir(algorithm.logdir)


def _row(iteration: int, result: dict[str, Any], seconds: float, total_seconds: float) -> Row:
    runners, parts = result[ENV_RUNNER_RESULTS], split(result)
    steps = int(runners[NUM_ENV_STEPS_SAMPLED])
    return Row(
        iteration=iteration,
        steps=steps,
        total_steps=int(runners[NUM_ENV_STEPS_SAMPLED_LIFETIME]),
        episodes=int(runners.get(NUM_EPISODES, 0)),
        return_mean=number(runners.get(EPISODE_RETURN_MEAN)),
        return_min=number(runners.get(EPISODE_RETURN_MIN)),
        return_max=number(runners.get(EPISODE_RETURN_MAX)),
        seconds=seconds,
        total_seconds=total_seconds,
        samples_per_second=steps / seconds,
        other_seconds=seconds - sum(parts.values()),
        **parts,
    )
