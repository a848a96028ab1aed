"""Settings of PPO and of its special case A2C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from vecenv.trainers._settings import COUNT, FINITE, LIMIT, NOT_NEGATIVE, SHARE, THREADS, Schedule, Settings


@dataclass(frozen=True)
class PPOConfig(Settings):
    """Settings of PPO.

    Attributes:
        num_envs: number of envs, if an id is given.
        groups: groups of envs that step in turn, if an id is given; 2 overlaps stepping and acting where envs are slow.
        rollout_steps: steps of each env between updates.
        epochs: passes over each rollout.
        minibatch: transitions per gradient step; 0: the whole rollout. With an LSTM, whole sequences of this many.
        learning_rate: learning rate of the optimizer; like `clip_range` and `entropy` a number, or a function of
            progress, which goes from 0 to 1: `lambda progress: 3e-4 * (1 - progress)`.
        anneal: whether learning rate and clip range decrease to zero at the end.
        clip_range: limit of the change of action probabilities.
        gamma: discount factor.
        lam: lambda of generalized advantage estimation.
        entropy: weight of the entropy bonus.
        value_weight: weight of the value loss.
        clip_value: limit of the change of values, as far as their loss is concerned; None: no limit.
        max_grad_norm: gradients are scaled down to this norm.
        normalize_advantage: whether to normalize advantages within each minibatch.
        target_kl: stop an update when the KL divergence exceeds this; None: no limit.
        hidden: sizes of the layers, for policy and value function each.
        activation: "tanh" or "relu".
        image_features: number of features that the convolutions compute from an image.
        lstm: size of an LSTM between encoder and layers; 0: none.
        log_std: initial log standard deviation of continuous actions.
        normalize_obs, normalize_reward: whether to normalize by running statistics.
        central_value: several agents: whether the value function sees the observations of all agents of an env, dead
            ones as zeros; policies see their own alone.
        mask: name of the info, or of the part of Dict observations, that holds action masks, such as "action_mask";
            for envs on a device always an info; None: no masks.
        optimizer: "adam" or "rmsprop".
        torch_threads: number of torch threads; None decides by the size of the networks.
    """

    num_envs: int = 8
    groups: int = 1
    rollout_steps: int = 128
    epochs: int = 4
    minibatch: int = 256
    learning_rate: float | Schedule = 3e-4
    anneal: bool = False
    clip_range: float | Schedule = 0.2
    gamma: float = 0.99
    lam: float = 0.95
    entropy: float | Schedule = 0.0
    value_weight: float = 0.5
    clip_value: float | None = None
    max_grad_norm: float = 0.5
    normalize_advantage: bool = True
    target_kl: float | None = None
    hidden: tuple[int, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    image_features: int = 512
    lstm: int = 0
    log_std: float = 0.0
    normalize_obs: bool = False
    normalize_reward: bool = False
    central_value: bool = False
    mask: str | None = None
    optimizer: Literal["adam", "rmsprop"] = "adam"
    torch_threads: int | None = None

    fixed: ClassVar = frozenset(
        ("hidden", "activation", "image_features", "lstm", "normalize_obs", "normalize_reward", "central_value", "mask",
         "optimizer")
    )  # fmt: skip
    ranges: ClassVar = {
        **dict.fromkeys(("num_envs", "groups", "rollout_steps", "epochs", "hidden", "image_features"), COUNT),
        **dict.fromkeys(("minibatch", "learning_rate", "clip_range", "entropy", "value_weight", "lstm"), NOT_NEGATIVE),
        **dict.fromkeys(("gamma", "lam"), SHARE),
        **dict.fromkeys(("max_grad_norm", "target_kl", "clip_value"), LIMIT),
        "torch_threads": THREADS, "log_std": FINITE,
    }  # fmt: skip


def a2c(**changes: Any) -> PPOConfig:
    """A2C (Mnih et al. 2016) as settings of PPO: one pass over the whole rollout, in which clipping has no effect."""
    usual: dict[str, Any] = {"num_envs": 16, "rollout_steps": 5, "epochs": 1, "minibatch": 0, "learning_rate": 7e-4,
                             "lam": 1.0, "normalize_advantage": False, "optimizer": "rmsprop"}  # fmt: skip
    return PPOConfig(**{**usual, **changes})
