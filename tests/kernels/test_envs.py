"""The envs that we ship are Gymnasium's, bit for bit: in plain Python, and as native code."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
from vecenv.envs.taxi import ID as TAXI  # Taxi-v3 or, in later versions of Gymnasium, Taxi-v4
from vecenv.kernel.language.registry import find_kernel

pytestmark = pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date")

ISLANDS = ["SFFHF", "FHSFS", "FFFFG"]

CASES: list[tuple[str, dict[str, Any]]] = [
    ("CartPole-v0", {}),
    ("CartPole-v1", {}),
    ("CartPole-v1", {"sutton_barto_reward": True}),
    ("MountainCar-v0", {}),
    ("MountainCar-v0", {"goal_velocity": 0.02}),
    ("MountainCarContinuous-v0", {}),
    ("MountainCarContinuous-v0", {"goal_velocity": 0.02}),
    ("Pendulum-v1", {}),
    ("Pendulum-v1", {"g": 9.81}),
    ("Acrobot-v1", {}),
    ("FrozenLake-v1", {}),
    ("FrozenLake-v1", {"is_slippery": False}),
    ("FrozenLake-v1", {"success_rate": 0.7, "reward_schedule": (10, -5, -0.1)}),
    ("FrozenLake-v1", {"desc": ISLANDS}),
    ("FrozenLake8x8-v1", {}),
    ("FrozenLake8x8-v1", {"map_name": "4x4"}),
    (TAXI, {}),
    (TAXI, {"is_rainy": True}),
    (TAXI, {"fickle_passenger": True}),
    (TAXI, {"is_rainy": True, "fickle_passenger": True}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Blackjack-v1", {}),
    ("Blackjack-v1", {"natural": True, "sab": False}),
    ("Blackjack-v1", {"natural": False, "sab": False}),
]
if TAXI == "Taxi-v4":
    CASES.append(
        (TAXI, {"is_rainy": True, "rainy_probability": 0.5, "fickle_passenger": True, "fickle_probability": 0.9})
    )

RESET_OPTIONS = [
    ("CartPole-v1", {"low": -0.1, "high": 0.02}),
    ("MountainCar-v0", {"low": 0.3, "high": 0.49}),
    ("MountainCarContinuous-v0", {"low": -1.2}),
    ("Pendulum-v1", {"x_init": 0.5}),
    ("Pendulum-v1", {"x_init": 0.1, "y_init": 7.5}),
    ("Acrobot-v1", {"low": -3.0, "high": 3.0}),
]

IDS = sorted({id for id, _ in CASES})


def named(case: Any) -> str:
    return (
        ",".join(f"{key}={value}" for key, value in case.items()).replace(" ", "") if isinstance(case, dict) else case
    )


# The oracle


def same(ours: Any, theirs: Any, what: str) -> None:
    """Equal bits, dtype and structure. `==` of floats would let 0.0 pass for -0.0."""
    if isinstance(theirs, tuple):
        assert isinstance(ours, tuple), what
        assert len(ours) == len(theirs), what
        for key, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            same(our, their, f"{what}[{key}]")
        return
    if ours is None and theirs is None:
        return
    our_array, their_array = np.asarray(ours), np.asarray(theirs)
    assert (our_array.dtype, our_array.shape) == (their_array.dtype, their_array.shape), what
    if their_array.dtype == object:
        for our, their in zip(our_array.flat, their_array.flat, strict=True):
            same(our, their, what)
    else:
        assert our_array.tobytes() == their_array.tobytes(), f"{what}: {ours!r} is not {theirs!r}"


def same_info(ours: dict[str, Any], theirs: dict[str, Any], what: str) -> None:
    """As `same`, but "prob" by its value: Gymnasium's is the int 1 after a reset, ours always a float64."""
    assert ours.keys() == theirs.keys(), what
    for key, their in theirs.items():
        if isinstance(their, dict):
            same_info(ours[key], their, f"{what}[{key}]")
        else:
            same(ours[key], np.asarray(their, np.float64) if key == "prob" else their, f"{what}[{key}]")


def play(id: str, observations: Any, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random actions, most of them replaced by ones that get somewhere, so that episodes end in every way there is."""
    observations = np.asarray(observations[0] if isinstance(observations, tuple) else observations)
    if id.startswith("MountainCar-"):
        good = np.where(observations[:, 1] >= 0, 2, 0)
    elif id.startswith("MountainCarContinuous"):
        good = np.where(observations[:, 1:] >= 0, 1.0, -1.0).astype(np.float32)
    elif id.startswith("Acrobot"):
        good = np.where(observations[:, 5] >= 0, 2, 0)
    elif id.startswith("CliffWalking"):
        good = np.where(observations % 12 == 11, 2, np.where(observations < 36, 1, 0))
    elif id.startswith("FrozenLake"):
        good = rng.integers(1, 3, len(observations))
    elif id.startswith("Taxi"):
        good = _drive(observations)
    else:
        return actions
    often = rng.random(len(observations)) < 0.7
    return np.where(often.reshape(-1, *[1] * (actions.ndim - 1)), good, actions).astype(actions.dtype)


def _drive(observations: np.ndarray) -> np.ndarray:
    """Towards where the passenger is, or wants to be; walls are left to chance."""
    place, passenger, destination = observations // 20, observations // 4 % 5, observations % 4
    stop = np.array([0, 4, 20, 23])[np.where(passenger == 4, destination, passenger)]
    down, right = stop // 5 - place // 5, stop % 5 - place % 5
    there = np.where(passenger == 4, 5, 4)
    sideways = np.where(right > 0, 2, np.where(right < 0, 3, there))
    return np.where(
        (place // 5 != 2) & (right != 0),
        np.where(place // 5 < 2, 0, 1),
        np.where(right != 0, sideways, np.where(down > 0, 0, np.where(down < 0, 1, there))),
    )


def batch_of_one(observation: Any) -> Any:
    if isinstance(observation, tuple):
        return tuple(np.asarray([part]) for part in observation)
    return np.asarray([observation])


def actions_of(id: str, space: gymnasium.Space[Any], count: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform over the space; of Box a little beyond its bounds, where envs limit what they are given."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return rng.integers(space.n, size=count)
    return rng.uniform(1.2 * space.low, 1.2 * space.high, (count, *space.shape)).astype(space.dtype)


# In plain Python


@pytest.mark.parametrize("id", IDS)
def test_time_limit_is_that_of_gymnasium(id: str) -> None:
    kernel = find_kernel(id)
    assert kernel is not None
    assert kernel.max_episode_steps == gymnasium.spec(id).max_episode_steps


@pytest.mark.parametrize(("id", "options"), CASES, ids=named)
def test_spaces_are_those_of_gymnasium(id: str, options: dict[str, Any]) -> None:
    ours, theirs = vecenv.make_env(id, **options), gymnasium.make(id, **options)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space


def test_a_natural_of_blackjack_pays_more_only_if_it_wins() -> None:
    ours, theirs = (make("Blackjack-v1", natural=True, sab=False) for make in (vecenv.make_env, gymnasium.make))
    rewards = set()
    for seed in range(1500):
        assert ours.reset(seed=seed)[0] == theirs.reset(seed=seed)[0]
        player = theirs.unwrapped.player
        reward = theirs.step(0)[1]
        assert ours.step(0)[1] == reward
        if sorted(player) == [1, 10]:
            rewards.add(reward)
    assert rewards == {0.0, 1.5}


def compare_episodes(id: str, ours: Any, theirs: Any, seed: int, steps: int, options: Any = None) -> set[str]:
    """Play both side by side, resets without seed included; the ways in which episodes ended."""
    rng = np.random.default_rng(seed)
    endings: set[str] = set()
    our_obs, our_info = ours.reset(seed=seed, options=options)
    their_obs, their_info = theirs.reset(seed=seed, options=options)
    same(our_obs, their_obs, "observation of the first reset")
    same_info(our_info, their_info, "info of the first reset")
    for number in range(steps):
        action = play(id, batch_of_one(their_obs), actions_of(id, theirs.action_space, 1, rng), rng)[0]
        our_obs, our_reward, *our_flags, our_info = ours.step(action)
        their_obs, their_reward, *their_flags, their_info = theirs.step(action)
        same(our_obs, their_obs, f"observation of step {number}")
        same(float(our_reward), float(their_reward), f"reward of step {number}")
        assert our_flags == their_flags, f"flags of step {number}"
        same_info(our_info, their_info, f"info of step {number}")
        if any(their_flags):
            endings.add("terminated" if their_flags[0] else "truncated")
            our_obs, our_info = ours.reset(options=options)
            their_obs, their_info = theirs.reset(options=options)
            same(our_obs, their_obs, f"observation of the reset after step {number}")
            same_info(our_info, their_info, f"info of the reset after step {number}")
    return endings


@pytest.mark.parametrize(("id", "options"), CASES, ids=named)
def test_python_env_is_bit_equal(id: str, options: dict[str, Any]) -> None:
    ours, theirs = vecenv.make_env(id, **options), gymnasium.make(id, disable_env_checker=True, **options)
    endings = set.union(*(compare_episodes(id, ours, theirs, seed, 600) for seed in (1, 2, 3)))
    assert endings >= {"truncated" if id.startswith("Pendulum") else "terminated"}


@pytest.mark.parametrize(("id", "reset_options"), RESET_OPTIONS, ids=named)
def test_reset_options_are_those_of_gymnasium(id: str, reset_options: dict[str, float]) -> None:
    ours = vecenv.make_env(id, max_episode_steps=20)
    theirs = gymnasium.make(id, max_episode_steps=20, disable_env_checker=True)
    assert compare_episodes(id, ours, theirs, 5, 200, reset_options)


def test_cartpole_stepped_on_after_its_fall_earns_nothing() -> None:
    ours, theirs = vecenv.make_env("CartPole-v1").unwrapped, gymnasium.make("CartPole-v1").unwrapped
    ours.reset(seed=0)
    theirs.reset(seed=0)
    with pytest.warns(UserWarning, match="has already returned terminated"):
        pairs = [(ours.step(1)[1], theirs.step(1)[1]) for _ in range(30)]
    assert [ours for ours, _ in pairs] == [theirs for _, theirs in pairs]
    assert pairs[-1] == (0.0, 0.0)


@pytest.mark.parametrize("id", ["FrozenLake-v1", "CliffWalking-v1", TAXI])
def test_steps_beyond_the_end_are_those_of_gymnasium(id: str) -> None:
    ours, theirs = vecenv.make_env(id).unwrapped, gymnasium.make(id).unwrapped
    rng = np.random.default_rng(0)
    ours.reset(seed=0)
    observation, _ = theirs.reset(seed=0)
    for number in range(300):
        action = play(id, np.array([observation]), rng.integers(theirs.action_space.n, size=1), rng)[0]
        our_obs, our_reward, our_end, _, our_info = ours.step(action)
        observation, their_reward, their_end, _, their_info = theirs.step(action)
        assert (our_obs, our_reward, our_end) == (observation, their_reward, their_end), number
        same_info(our_info, their_info, f"info of step {number}")


# As native code

COUNT, STEPS = 20, 2000
SEEDS = [37 * row + 11 for row in range(COUNT)]


def gymnasium_envs(id: str, **options: Any) -> list[Any]:
    return [functools.partial(gymnasium.make, id, disable_env_checker=True, **options)] * COUNT


class Reference:
    """Gymnasium's SyncVectorEnv, where envs report "prob" with the infos of our sync engine over the same envs.

    Gymnasium takes the dtype of an info from the first env that reports it, and so cuts "prob" to an int where that env
    was just reset (its prob is the int 1).
    """

    def __init__(self, env_fns: list[Any], autoreset: AutoresetMode) -> None:
        self.envs = SyncVectorEnv(env_fns, autoreset_mode=autoreset)
        reported = "prob" in self.envs.reset()[1]
        self.infos = vecenv.make(env_fns, engine="sync", autoreset=autoreset) if reported else None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.envs.reset(**kwargs)
        return observations, infos if self.infos is None else self.infos.reset(**kwargs)[1]

    def step(self, actions: Any) -> tuple[Any, ...]:
        *results, infos = self.envs.step(actions)
        return *results, infos if self.infos is None else self.infos.step(actions)[4]


def compare_vectors(id: str, ours: Any, theirs: Any, steps: int, options: Any = None) -> int:
    """Step both with the same actions; the number of episodes that ended."""
    rng = np.random.default_rng(1)
    ended = 0
    our_obs, our_infos = ours.reset(seed=SEEDS, options=options)
    their_obs, their_infos = theirs.reset(seed=SEEDS, options=options)
    same(our_obs, their_obs, "observations of reset")
    same_info(our_infos, their_infos, "infos of reset")
    for number in range(steps):
        actions = play(id, their_obs, actions_of(id, ours.single_action_space, COUNT, rng), rng)
        our_obs, *our_rest, our_infos = ours.step(actions)
        their_obs, *their_rest, their_infos = theirs.step(actions)
        same(our_obs, their_obs, f"observations of step {number}")
        same(tuple(our_rest), tuple(their_rest), f"rewards, terminated, truncated of step {number}")
        same_info(our_infos, their_infos, f"infos of step {number}")
        ended += int((their_rest[1] | their_rest[2]).sum())
    return ended


@pytest.mark.parametrize(("id", "options"), CASES, ids=named)
def test_native_code_is_bit_equal(id: str, options: dict[str, Any]) -> None:
    with vecenv.make(id, COUNT, engine="compiled", env_kwargs=options) as ours:
        theirs = Reference(gymnasium_envs(id, **options), AutoresetMode.NEXT_STEP)
        assert compare_vectors(id, ours, theirs, STEPS)


@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1", TAXI])
def test_native_code_is_bit_equal_with_resets_in_the_same_step(id: str) -> None:
    with vecenv.make(id, COUNT, engine="compiled", autoreset="same-step") as ours:
        theirs = Reference(gymnasium_envs(id), AutoresetMode.SAME_STEP)
        assert compare_vectors(id, ours, theirs, STEPS)


@pytest.mark.parametrize(("id", "reset_options"), RESET_OPTIONS, ids=named)
def test_native_code_takes_reset_options(id: str, reset_options: dict[str, float]) -> None:
    with vecenv.make(id, COUNT, engine="compiled") as ours:
        theirs = Reference(gymnasium_envs(id), AutoresetMode.NEXT_STEP)
        compare_vectors(id, ours, theirs, 50, reset_options)


@pytest.mark.parametrize(
    ("id", "name", "values"),
    [
        ("Pendulum-v1", "g", np.linspace(5, 15, COUNT)),
        ("MountainCar-v0", "goal_velocity", np.linspace(0, 0.06, COUNT)),
        ("CliffWalking-v1", "is_slippery", np.arange(COUNT) % 2 == 0),
        (TAXI, "is_rainy", np.arange(COUNT) % 3 == 0),
    ],
    ids=named,
)
def test_every_env_may_have_a_parameter_of_its_own(id: str, name: str, values: np.ndarray) -> None:
    with vecenv.make(id, COUNT, engine="compiled", env_kwargs={name: values}) as ours:
        envs = [functools.partial(gymnasium.make, id, **{name: value.item()}) for value in values]
        compare_vectors(id, ours, Reference(envs, AutoresetMode.NEXT_STEP), 500)
