"""The checks of `vecenv check`, each a function of the env that returns its findings."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import math
import pickle
import random
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

import cloudpickle
import gymnasium
import numpy as np

from vecenv._batch.faults import ENV_RAISED
from vecenv._batch.layout import Layout
from vecenv._front.action_masks import sample_after, sample_allowed
from vecenv._make.registration import make_env
from vecenv._make.source import find_build
from vecenv.agents import MultiAgentVectorEnv
from vecenv.agents._turns import GymnasiumAgents, is_aec
from vecenv.cli._agents import sample_all, sample_row, slots_of, wrong_entries, wrong_value
from vecenv.cli._contestants import measure, ours
from vecenv.cli._screen import short
from vecenv.cli._sources import EnvSource, space_words
from vecenv.cli._values import bare, bits
from vecenv.engines import Compiled, Device, Sync, registry
from vecenv.mujoco._registry import find_task
from vecenv.testing._check_kernel import check_kernel
from vecenv.testing._lines import shortened

_SPEED_ENVS, _SPEED_SECONDS = 16, 0.3
_CHECKED_ENVS = 64


@dataclass(frozen=True)
class Finding:
    """The result of a check; `blocked_by` says which other checks a fatal one prevents.

    Whatever failed or is warned of has a line of advice: what to do about it. `raised`: an exception ended the check.
    """

    check: str
    result: Literal["ok", "warning", "failed", "skipped"]
    message: str
    advice: str = ""
    fatal: bool = field(default=False, repr=False)
    raised: bool = field(default=False, repr=False)


Fault = tuple[str, str]
"""What is wrong, and what to do about it."""


class _Problem(Exception):
    """What a check found, one or several faults. Raised, so that the check ends."""

    def __init__(self, *faults: Fault, result: Literal["warning", "failed"] = "failed", fatal: bool = False) -> None:
        super().__init__(*faults)
        self.result: Literal["warning", "failed"] = result
        self.fatal = fatal


class Subject:
    """The env that is checked, with `steps` random steps; the last check sets `engine`: which suits best, and why."""

    def __init__(self, source: EnvSource, steps: int, seed: int) -> None:
        self.source, self.steps, self.seed = source, steps, seed
        self.engine: dict[str, Any] = {}

    def env(self) -> closing[Any]:
        """One env, closed afterwards."""
        return closing(self.source.factory()())

    def masks(self) -> bool:
        """Whether infos of the env say which actions are allowed."""
        with contextlib.suppress(*ENV_RAISED), self.env() as env:
            return slots_of(env) is None and "action_mask" in env.reset(seed=self.seed)[1]
        return False

    def walk(self, env: Any) -> Iterator[tuple[int, Any, Any]]:
        """Random episodes, the same in every call: number of the step, the action (None for a reset), and the results.

        Actions are those that masks allow.
        """
        space, slots = copy.deepcopy(env.action_space), slots_of(env)
        space.seed(self.seed)
        latest = env.reset(seed=self.seed)
        yield 0, None, latest
        for number in range(1, self.steps + 1):
            if slots is None:
                action = sample_after(space, latest)
            else:
                action = sample_row(space, slots, latest[0], latest[-1])
            latest = env.step(action)
            yield number, action, latest
            if latest[2] or latest[3]:
                latest = env.reset()
                yield number, None, latest


_ADVICE = {
    "builds": "its constructor must work with the arguments of --kwargs",
    "api": "see https://gymnasium.farama.org/api/env: what reset, step and the spaces must be",
    "kernel": "see docs/kernels.md: what native code computes like Python, and what it does not",
    "native bounds": "it names the line: see docs/kernels.md, checked native code",
    "pickling": "workers get the class and its arguments by pickle: keep open files and locks out of them",
}
"""What to do about an exception in a check."""
_ANY_ACTIONS = ("api", "speed")
"""Checks that take any action, whatever masks say."""
_SHARING = "envs must share nothing: no global or class variables, no random numbers but self.np_random"


def _check(function: Callable[[Subject], str | list[Finding]]) -> Callable[[Subject], list[Finding]]:
    """A check from a function that returns what is right, or raises a _Problem; it fails if the env raises."""
    name = function.__name__.replace("_", " ")

    def checked(subject: Subject) -> list[Finding]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = function(subject)
        except _Problem as problem:
            return [Finding(name, problem.result, wrong, advice, problem.fatal) for wrong, advice in problem.args]
        except ENV_RAISED as error:
            if name in _ANY_ACTIONS and subject.masks():
                return [Finding(name, "skipped", "it takes any action, also those that the env's masks forbid")]
            advice = _ADVICE.get(name, "see the traceback in Python: reset and step the env there")
            fatal = function.__name__ in ("builds", "spaces", "values", "engines")
            return [Finding(name, "failed", f"{type(error).__name__}: {error!s:.300}", advice, fatal, raised=True)]
        return [Finding(name, "ok", found)] if isinstance(found, str) else found

    checked.__name__ = function.__name__
    return checked


@_check
def builds(subject: Subject) -> str:
    """The constructor works and makes an Env."""
    started = time.perf_counter()
    env = subject.source.factory()()
    if not isinstance(env, gymnasium.Env):
        wrong = f"it is a {type(env).__name__}, not a gymnasium.Env or a PettingZoo env"
        advice = "derive the class from gymnasium.Env, or name a function that returns such an env"
        raise _Problem((wrong, advice), fatal=True)
    with closing(env):
        slots = slots_of(env)
        agents = "" if slots is None else f"{len(slots)} agents, "
        return f"{agents}in {1000 * (time.perf_counter() - started):.1f} ms"


@_check
def spaces(subject: Subject) -> str:
    """The spaces are Gymnasium spaces that vecenv can store."""
    with subject.env() as env:
        given = {name: getattr(env, name, None) for name in ("observation_space", "action_space")}
        missing = [
            (f"{name} is {space!r:.80}, not a gymnasium.Space", f"set self.{name} in __init__")
            for name, space in given.items()
            if not isinstance(space, gymnasium.Space)
        ]
        if missing:
            raise _Problem(*missing, fatal=True)
        slots = slots_of(env)
        if slots is not None:
            return "; ".join(
                f"{group.name} ({len(group)}): {space_words(group.observation_space)} -> "
                f"{space_words(group.action_space)}"
                for group in slots.groups
            )
        found = []
        for name, space in given.items():
            assert space is not None
            Layout(space)  # raises if the space cannot be stored
            found.append(space_words(space))
            if isinstance(space, gymnasium.spaces.Box) and name == "action_space" and not space.is_bounded():
                message = f"actions are unbounded ({space_words(space)}): random actions and SAC need bounds"
                raise _Problem((message, "give Box low and high"), result="warning")
    return " -> ".join(found)


@_check
def api(subject: Subject) -> str:
    """Gymnasium's own checker, and its warnings."""
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings(record=True) as caught, subject.env() as env:
        warnings.simplefilter("always")
        if slots_of(env) is not None:
            return _pettingzoo_api(subject, env)
        check_env(env.unwrapped, skip_render_check=True)
    found = list(dict.fromkeys(bare(str(one.message)) for one in caught if "WARN" in str(one.message)))
    found = [text for text in found if "infinity" not in text]  # many good envs have unbounded observations
    if found:
        raise _Problem(*((text, _ADVICE["api"]) for text in found), result="warning")
    return "reset and step follow Gymnasium's API"


def _pettingzoo_api(subject: Subject, row: Any) -> str:
    """PettingZoo's own test on the env in a row, or on a kernel as a PettingZoo env."""
    from pettingzoo.test import api_test, parallel_api_test

    kernel = find_build(subject.source.env)[0] is not None
    env: Any = make_env(subject.source.env, **subject.source.kwargs) if kernel else row.unwrapped.env
    if isinstance(env, GymnasiumAgents):
        return "an env with num_agents; PettingZoo's tests are for PettingZoo's envs"
    by_turns = is_aec(env)
    # Their tests print, and warn of what is unusual but allowed. They fail by assertions.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        (api_test if by_turns else parallel_api_test)(env, num_cycles=subject.steps)
    return f"PettingZoo's {'api_test' if by_turns else 'parallel_api_test'} passes"


@_check
def values(subject: Subject) -> str:
    """Observations are in their space, rewards and flags have the right types, and everything is finite."""
    faults: dict[str, Fault] = {}  # the first of each kind
    with subject.env() as env:
        ended = 0
        for number, action, answer in subject.walk(env):
            where = f"after reset, step {number}" if action is None else f"step {number}"
            for kind, words, advice in _wrong(env, answer[0]):
                faults.setdefault(kind, (f"{where}: {words}", advice))
            if not isinstance(answer[-1], dict):
                wrong = f"{where}: the info is {answer[-1]!r:.40}, not a dict"
                faults.setdefault("info", (wrong, "return {} if there is nothing to add"))
            if action is None:
                continue
            reward, ended = answer[1], ended + bool(answer[2] or answer[3])
            if np.ndim(reward) or not np.isfinite(_number(reward)):
                wrong = f"{where}: the reward is {reward!r:.60}; it must be a finite number"
                faults.setdefault("reward", (wrong, "return float(reward); look for a division by zero"))
            for name, flag in (("terminated", answer[2]), ("truncated", answer[3])):
                if not isinstance(flag, (bool, np.bool_)):
                    faults.setdefault(name, (f"{where}: {name} is {flag!r:.40}, not a bool", f"return bool({name})"))
    if faults:
        raise _Problem(*faults.values(), fatal=bool(_ENGINES_REFUSE & faults.keys()))
    message = f"{subject.steps} random steps, {ended} episodes ended: all inside their spaces, all finite"
    if not ended:
        raise _Problem(
            (message, "check more --steps; if no episode ever ends, set max_episode_steps"), result="warning"
        )
    return message


def _number(reward: Any) -> float:
    """The reward, or NaN if it is not a number."""
    try:
        return math.nan if isinstance(reward, (str, bytes, bytearray)) else float(reward)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _wrong(env: Any, obs: Any) -> list[tuple[str, str, str]]:
    """All that is wrong with an observation: kinds, words and advice."""
    slots = slots_of(env)
    return wrong_value(obs, env.observation_space) if slots is None else wrong_entries(slots, obs)


@_check
def determinism(subject: Subject) -> str:
    """The same seed and actions give the same bits, whatever the global random state is."""
    first = _recording(subject, 1)
    different = _first_difference(first, _recording(subject, 2))
    if different is not None:
        raise _Problem((
            f"step {different} differs between two runs with seed {subject.seed} and the same actions",
            "draw from self.np_random (set by super().reset(seed=seed)), not from np.random or random",
        ))  # fmt: skip
    with subject.env() as env:
        env.reset(seed=subject.seed)
        other = bits(env.reset(seed=subject.seed + 1)[0])
        if bits(env.reset(seed=subject.seed)[0]) != first[0]:
            wrong = f"reset(seed={subject.seed}) gives another episode in a used env than in a new one"
            raise _Problem((wrong, "set all state in reset"))
    if other == first[0]:
        return "same seed, same bits (the first observation is the same for all seeds)"
    return "same seed, same bits; another seed, another episode"


@_check
def buffer_reuse(subject: Subject) -> str | list[Finding]:
    """The env changes neither observations that it has returned nor the actions that it gets."""
    found = []
    with subject.env() as env:
        if slots_of(env) is not None:
            return []  # what a row with several agents returns is copied already
        kept: list[tuple[int, Any, bytes]] = []
        for number, _, answer in subject.walk(env):
            kept.append((number, answer[0], bits(answer[0])))
            if number > 20:
                break
        changed = next((number for number, obs, before in kept if bits(obs) != before), None)
        if changed is not None:
            wrong = f"the observation of step {changed} changed later: the env writes into an array it has returned"
            advice = "return a copy: vecenv makes one, lists and other replay buffers do not"
            found.append(Finding("buffer reuse", "warning", wrong, advice))
        action = sample_after(env.action_space, env.reset(seed=subject.seed))
        before = bits(action)
        env.step(action)
        if bits(action) != before:
            wrong, advice = "step() changes the action it was given", "copy it first: action = np.array(action)"
            found.append(Finding("buffer reuse", "failed", wrong, advice))
    return found or "returned observations and actions stay unchanged"


@_check
def pickling(subject: Subject) -> str:
    """The env can be built in a worker process."""
    cloudpickle.loads(cloudpickle.dumps(subject.source.env))
    with subject.env() as env:
        env.reset(seed=subject.seed)
        try:
            pickle.loads(pickle.dumps(env.unwrapped))
        except ENV_RAISED as error:
            return f"its class reaches workers; a running env cannot be pickled ({type(error).__name__}: {error!s:.80})"
    return "its class reaches workers; a running env too"


@_check
def engines(subject: Subject) -> str:
    """All engines give the same bits as engine "sync"."""
    reference = Sync.name
    names = [name for name in _able(subject) if name != reference]
    wanted, faults, raised = _exchanges(subject, reference), [], False
    for name in names:
        try:
            number = _first_difference(wanted, _exchanges(subject, name))
        except ENV_RAISED as error:
            faults.append((f"engine {name!r}: {type(error).__name__}: {error!s:.300}", _SHARING))
            raised = True
            continue
        if number is not None:
            faults.append((f"exchange {number} of engine {name!r} differs from engine {reference!r}", _SHARING))
    if faults:
        raise _Problem(*faults, fatal=raised)
    return f"{', '.join([reference, *names])}: the same bits, three envs, {len(wanted)} exchanges"


@_check
def kernel(subject: Subject) -> list[Finding]:
    """Native code of a kernel has the bits of Python, with random parameters too; and which lines that tried."""
    if find_build(subject.source.env)[0] is None or subject.source.refusal("compiled") is not None:
        return []
    try:
        report = check_kernel(
            subject.source.env, num_envs=4, steps=min(subject.steps, 200), seed=subject.seed, **subject.source.kwargs
        )
    except AssertionError as error:
        raise _Problem((str(error), _ADVICE["kernel"])) from None
    tried = f"{report.steps} steps, {report.episodes} episodes: native code has the bits of Python"
    if report.drawn:
        tried += f", also with random {', '.join(report.drawn)} within their bounds"
    missed = [shortened(place) for place in report.missed]
    lines = f"never ran: {', '.join(missed)}" if missed else "every line of its functions ran"
    unbounded = f"; without bounds, so not varied: {', '.join(report.fixed)}" if report.fixed else ""
    return [Finding("kernel", "ok", tried), Finding("coverage", "ok", lines + unbounded)]


@_check
def native_bounds(subject: Subject) -> str | list[Finding]:
    """Native code of a kernel, checked for what Python would raise for, in many envs at once."""
    if Compiled.name not in _able(subject):
        return []
    with subject.source.make(_CHECKED_ENVS, engine=Compiled.name, check="bounds") as envs:
        space = copy.deepcopy(envs.action_space)
        space.seed(subject.seed)
        envs.reset(seed=subject.seed)
        for _ in range(subject.steps):
            envs.step(space.sample())
    steps = _CHECKED_ENVS * subject.steps
    return f"{steps:,} random steps of {_CHECKED_ENVS} envs: no index, division, overflow or endless loop to report"


@_check
def speed(subject: Subject) -> list[Finding]:
    """The speed of each engine, and the engine that `make` chooses."""
    rates = {name: _rate(subject, name) for name in _able(subject)}
    with subject.source.make(_SPEED_ENVS) as envs:
        chosen, reason = envs.engine.name, envs.engine_reason
    subject.engine = {"name": chosen, "reason": reason, "envs": _SPEED_ENVS, "steps_per_second": rates}
    measured = ", ".join(f"{name} {short(rate)}" for name, rate in rates.items())
    best = max(rates, key=lambda name: rates[name])
    message = f"{chosen}: {reason}"
    if best != chosen and rates[best] > 1.3 * rates.get(chosen, 0.0):
        message += f" (measured now, {best!r} was faster)"
    return [
        Finding("speed", "ok", f"steps/s of {_SPEED_ENVS} envs: {measured}"),
        Finding("engine", "ok", message),
    ]


_ENGINES_REFUSE = {"shape", "dtype", "range", "space", "reward"}
"""Kinds of wrong values with which checks of engines would find the same fault again."""
_WITHOUT_ENGINES = ("determinism", "buffer reuse", "api", "pickling")
"""Checks of one env in Python: they find faults in an env that engines cannot run, too."""
_WITHOUT_STEPS = ("pickling",)
"""Checks that find faults in an env whose step or reset raises, too."""
_END = ("builds", "spaces")
_OF_KERNELS = ("kernel", "native bounds")
_OUTSIDE = "within the observation space"
"""Words of Gymnasium's checker about observations; the check of values says more about them."""
CHECKS = (builds, spaces, values, determinism, buffer_reuse, api, pickling, engines, kernel, native_bounds, speed)


def carry_out(check: Callable[[Subject], list[Finding]], subject: Subject, found: list[Finding]) -> list[Finding]:
    """The findings of a check after those in `found`; it is skipped if it could only find the same faults again."""
    name = check.__name__.replace("_", " ")
    reason = blocked_by(name, found)
    if reason is None:
        return [_unless_known(one, found) for one in check(subject)]
    if name in _OF_KERNELS and find_build(subject.source.env)[0] is None:
        return []  # it would have nothing to say
    return [Finding(name, "skipped", f"not run, because {reason!r} failed")]


def blocked_by(name: str, found: list[Finding]) -> str | None:
    """The failed check because of which the check of this name is not run; None if it is run."""
    for one in found:
        able = () if one.check in _END else _WITHOUT_STEPS if one.check == "values" and one.raised else _WITHOUT_ENGINES
        if one.fatal and name not in able:
            return one.check
    return None


def _unless_known(finding: Finding, found: list[Finding]) -> Finding:
    """The finding; or that the check was skipped, if it ended at a fault that an earlier check has named."""
    for one in found:
        outside = one.check == "values" and one.fatal and _OUTSIDE in finding.message
        if finding.raised and (outside or finding.message == one.message):
            return Finding(finding.check, "skipped", f"it found the fault that {one.check!r} names")
    return finding


def _recording(subject: Subject, state: int) -> list[bytes]:
    """Bits of all results of an env, with its own global random state."""
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(state)
    np.random.seed(state)
    try:
        with subject.env() as env:
            return [
                bits(answer[0])
                if action is None
                else bits(answer[0]) + bits([_number(answer[1]), *map(bool, answer[2:4])])
                for _, action, answer in subject.walk(env)
            ]
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _first_difference(first: list[bytes], second: list[bytes]) -> int | None:
    """Where two recordings differ first; None if they are equal."""
    for number, (one, other) in enumerate(itertools.zip_longest(first, second)):
        if one != other:
            return number
    return None


def _exchanges(subject: Subject, engine: str) -> list[bytes]:
    """Bits of all results of a vector env."""
    options: dict[str, Any] = {"workers": 2} if registry.declares(engine, "parallel") else {}
    with subject.source.make(3, engine=engine, **options) as envs:
        space = copy.deepcopy(envs.single_action_space) if hasattr(envs, "single_action_space") else None
        for one in (envs.action_space, space):
            if one is not None:
                one.seed(subject.seed)
        obs, infos = envs.reset(seed=subject.seed)
        found = [bits(obs)]
        for _ in range(min(subject.steps, 200)):
            if isinstance(envs, MultiAgentVectorEnv):
                actions = sample_all(envs, obs, infos)
            elif "action_mask" in infos:
                actions = np.array([sample_allowed(space, mask) for mask in infos["action_mask"]])
            else:
                actions = envs.action_space.sample()
            obs, reward, terminated, truncated, infos = envs.step(actions)
            found.append(bits(obs) + bits([reward, terminated, truncated]))
    return found


def _rate(subject: Subject, engine: str) -> float:
    """Steps per second."""
    exchange, close, wait = ours(subject.source, _SPEED_ENVS, engine=engine)
    try:
        return measure(exchange, _SPEED_SECONDS, wait) * _SPEED_ENVS
    finally:
        close()


def _able(subject: Subject) -> list[str]:
    """Names of the engines on this machine that can run it bit for bit: MuJoCo tasks have other physics on a device."""
    automatic = [engine.name for engine in registry.classes() if engine.automatic]
    other = {Device.name} if find_task(subject.source.env) is not None else set()
    return [name for name in automatic if name not in other and subject.source.refusal(name) is None]
