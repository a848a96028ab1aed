"""Engines are objects in one registry: nothing that is asked for is ignored, and everything reads the registry."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import vecenv
from vecenv import engines
from vecenv._make.make import make
from vecenv._make.options import keyword_names
from vecenv.engines import Process, Ray, Request, Source, Sync, Thread, registry
from vecenv.errors import ConfigError, ConfigTypeError, EngineRefused, UnknownEngine, UnsupportedError
from vecenv.testing import check_engine
from vecenv.testing._law_env import LawEnv

ROOT = Path(__file__).parents[1]
ENVS: dict[str, Any] = {
    "compiled": {"env": "CartPole-v1"},
    "device": {"env": "CartPole-v1"},
    "mujoco": {"env": "Hopper-v5"},
    "ale": {"env": "ALE/Pong-v5", "preprocessing": True},
}
"""What engines for native code can run; the others run anything."""
OPTIONS: dict[str, Any] = {
    "workers": 2,
    "context": "fork",
    "start_timeout": 5.0,
    "caller_works": True,
    "precision": "fast",
    "check": "bounds",
    "ray_address": "auto",
    "num_cpus": 2.0,
    "local_engine": "sync",
    "local": Sync(),
    "order": "fixed",
    "device": "cuda:0",
    "results": "numpy",
    "concurrency": 2,
    "rate": 100.0,
    "step_timeout": 5.0,
    "reset_timeout": 5.0,
    "classify": lambda error, phase: None,
    "loop": "running",
}
"""Options of engines, with values that are not their defaults."""
ASKED: dict[str, Any] = {
    "timeout": 1.0,
    "on_error": "restart",
    "observation_mode": "different",
    "wrappers": [lambda env: env],
    "record": "last-episode",
}
"""Arguments of `make` that an engine may not be able to honour."""
LACKING = [
    (kind.name, option) for kind in registry.classes() for option in OPTIONS if option not in kind.option_names()
]
CANNOT = [(kind.name, name) for kind in registry.classes() for name in ASKED if name in kind.cannot]


def made(engine: Any, **given: Any) -> Any:
    source = {"env": LawEnv} if not isinstance(engine, str) else ENVS.get(engine, {"env": LawEnv})
    return vecenv.make(num_envs=4, engine=engine, **source, **given)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_the_tables_of_this_file_are_complete():
    assert set(OPTIONS) == set(registry.option_defaults())
    assert {name for kind in registry.classes() for name in kind.cannot} == set(ASKED)
    assert set(ASKED) <= {field.name for field in dataclasses.fields(Request)}


@pytest.mark.parametrize(("engine", "option"), LACKING)
def test_an_option_that_the_engine_does_not_have_is_refused(engine, option):
    with pytest.raises(EngineRefused) as caught:
        made(engine, **{option: OPTIONS[option]})
    assert f"the {engine} engine has no option {option}" in str(caught.value)
    assert repr(OPTIONS[option]) in str(caught.value)
    assert all(repr(able) in str(caught.value) for able in registry.having(option))
    assert f"leave {option} out" in str(caught.value)


@pytest.mark.parametrize(("engine", "name"), CANNOT)
def test_an_argument_that_the_engine_cannot_honour_is_refused(engine, name):
    with pytest.raises(EngineRefused) as caught:
        made(engine, **{name: ASKED[name]})
    assert f"the {engine} engine cannot honour {name}=" in str(caught.value)
    assert all(repr(able) in str(caught.value) for able in registry.honouring(name))
    assert f"leave {name} out" in str(caught.value)


@pytest.mark.parametrize("engine", ["sync", "thread"])
@pytest.mark.parametrize("name", ASKED)
def test_an_argument_that_the_engine_can_honour_is_accepted(engine, name, tmp_path):
    if (engine, name) not in CANNOT:
        folder = {"record_folder": tmp_path} if name == "record" else {}
        made(engine, **folder, **{name: ASKED[name]}).close()


@pytest.mark.parametrize("given", [{"record_folder": "elsewhere"}, {"record_limit": 1000}])
def test_where_and_how_much_to_record_is_refused_without_a_recorder(given):
    with pytest.raises(ConfigError, match=f"{next(iter(given))}=.* is for record='last-episode', which was not given"):
        made("sync", **given)


@pytest.mark.parametrize("engine", ["compiled", "sync", "thread"])
def test_a_default_is_as_good_as_nothing(engine):
    with made(engine, **registry.option_defaults()) as envs:
        assert envs.engine.name == engine


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (Thread, {"workers": 0}, "workers must be an int >= 1, got 0"),
        (Process, {"context": "thread"}, "context must be one of"),
        (Process, {"start_timeout": -1}, "start_timeout must be a positive number"),
        (Process, {"caller_works": "yes"}, "caller_works must be True or False"),
        (Process, {"order": "random"}, "order must be one of 'first-ready', 'fixed', got 'random'"),
        (engines.Compiled, {"check": "all"}, "check must be one of 'bounds', got 'all'"),
        (engines.Compiled, {"precision": "double"}, "precision must be one of 'exact', 'fast', got 'double'"),
        (engines.Ale, {"workers": "2"}, "workers must be an int >= 1, got str '2'"),
        (Ray, {"num_cpus": 0}, "num_cpus must be a positive number"),
        (Ray, {"local_engine": "ray"}, "local_engine must be one of 'auto', 'compiled', 'sync', 'thread', 'process'"),
        (Ray, {"ray_address": 3}, "ray_address must be 'auto', host:port or None, got 3"),
    ],
)
def test_an_engine_object_checks_its_options(kind, options, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        kind(**options)


# --- names and objects -----------------------------------------------------------------------------------------------


def test_a_name_with_options_is_the_short_form_of_an_object():
    short = made("process", workers=3, context="fork", order="fixed")
    same = made(Process(workers=3, context="fork", order="fixed"))
    for envs in (short, same):
        with envs:
            assert envs.engine.name == "process"
            assert len(envs.engine.processes) == 3
            assert envs.engine_reason == "engine='process' was asked for"


def test_options_beside_an_object_fill_what_it_leaves_open():
    with made(Process(context="fork"), workers=3) as envs:
        assert len(envs.engine.processes) == 3
    with pytest.raises(ConfigError, match=r"workers is given twice: workers=3 and engine=Process\(workers=2"):
        made(Process(workers=2), workers=3)
    with pytest.raises(EngineRefused, match="the sync engine has no option workers"):
        made(Sync(), workers=3)
    with pytest.raises(EngineRefused, match=r"workers must be in 1 \.\.\. 4"):
        made(Thread(workers=5))


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("proces", "did you mean 'process'"),
        ("Sync", "did you mean 'sync'"),
        ("turbo", "one of 'compiled', 'device', 'mujoco', 'ale', 'sync', 'thread', 'process', 'asyncio', 'ray'"),
        (3, "an object with name, refuses and build, such as vecenv.engines.Process(workers=4); got 3"),
        (None, "an object with name, refuses and build"),
        (Process, "pass an object of it, Process()"),
        (object(), "an object with name, refuses and build"),
    ],
)
def test_what_is_no_engine_says_what_is_needed(engine, told):
    with pytest.raises(UnknownEngine, match=re.escape(told)):
        made(engine)


def test_a_build_that_returns_no_engine_says_what_is_missing():
    class Nothing:
        name = "nothing"

        def refuses(self, source: Source, request: Request) -> str | None:
            return None

        def build(self, source: Source, request: Request) -> Any:
            return None

    with pytest.raises(ConfigTypeError, match=r"Nothing.build must return an engine.* has no name, batch, facts"):
        made(Nothing())


# --- auto ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "engine", "told"),
    [
        ({"on_error": "restart"}, ("sync", "process"), "not the compiled engine: .* cannot honour on_error='restart'"),
        ({"context": "fork"}, ("process",), r"sync engine has no option context.*\(not the compiled engine: .*context"),
        ({"precision": "fast"}, ("compiled",), "has a kernel"),
        ({"workers": 2}, ("compiled",), "has a kernel"),
        ({"order": "fixed"}, ("compiled",), "has a kernel"),
    ],
)
def test_auto_chooses_no_engine_that_cannot_do_what_is_asked(given, engine, told):
    with vecenv.make("CartPole-v1", 4, **given) as envs:
        assert envs.engine.name in engine
        assert re.search(told, envs.engine_reason)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"precision": "fast"}, "there is no kernel of this env"),
        ({"num_cpus": 2.0}, r"'auto' chooses no engine with the option num_cpus .got 2.0.; pass engine='ray'"),
        ({"caller_works": True, "precision": "fast"}, "no engine has all of the options caller_works, precision"),
        ({"workers": 9}, r"^workers must be in 1 \.\.\. 4"),
    ],
)
def test_auto_says_why_no_engine_fits(given, told):
    with pytest.raises(EngineRefused, match=told):
        vecenv.make(LawEnv, 4, **given)


# --- one registry ----------------------------------------------------------------------------------------------------


def test_the_engines_that_are_exported_are_those_of_the_registry():
    assert [kind.__name__ for kind in registry.classes()] == [name.capitalize() for name in registry.names()]
    for kind in registry.classes():
        assert getattr(engines, kind.__name__) is kind
        assert kind.__name__ in engines.__all__
        assert dataclasses.is_dataclass(kind)
        assert all(f"{option}:" in (kind.__doc__ or "") for option in kind.option_names())
    assert all(hasattr(engines, name) for name in engines.__all__)


def test_a_default_is_the_same_in_every_engine():
    for kind in registry.classes():
        for field in dataclasses.fields(kind):
            assert field.default == registry.option_defaults()[field.name]


def test_every_keyword_of_make_is_known_where_misspellings_are_looked_for():
    explicit = set(inspect.signature(make).parameters) - {"kwargs"}
    assert explicit <= set(keyword_names())
    assert set(keyword_names()) - explicit <= set(registry.option_defaults())


def plain(cell: str) -> str:
    """The text of a table's cell, without links and code marks."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell).replace("`", "").strip()


def rows(page: Path, head: str) -> list[list[str]]:
    """The cells of the table of a page that begins with a head."""
    lines = page.read_text().split(head, 1)[1].splitlines()[2:]
    table = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [[plain(cell) for cell in line.strip("|").split(" | ")] for line in table]


def test_the_page_about_engines_has_their_options():
    found = rows(ROOT / "docs" / "engines.md", "| object | options |")
    assert found == [[kind.__name__, ", ".join(kind.option_names())] for kind in registry.classes()]


def test_options_of_engines_load_nothing_heavy():
    heavy = "{'numba', 'ray', 'ale_py', 'mujoco', 'torch'}"
    code = f"import sys; from vecenv.engines import *; Ray(); Compiled(); print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- an engine of others ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    """The names of the example in docs/engines.md, which is run by this."""
    text = (ROOT / "docs" / "engines.md").read_text()
    block = next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "NewestFirst" in block)
    names: dict[str, Any] = {"__name__": "newest_first"}
    exec(compile(block, "engines.md", "exec"), names)
    return names


def test_an_engine_of_others_obeys_the_six_laws(theirs):
    check_engine(theirs["NewestFirstEngine"])


def test_an_engine_of_others_runs_through_make(theirs):
    with made(theirs["NewestFirst"](), autoreset="same-step") as envs, made("sync", autoreset="same-step") as twin:
        assert envs.engine_reason == "engine='newest-first' was asked for"
        envs.action_space.seed(0)
        assert (envs.reset(seed=0)[0] == twin.reset(seed=0)[0]).all()
        for _ in range(20):
            actions = envs.action_space.sample()
            one, other = envs.step(actions), twin.step(actions)
            assert all((ours == theirs).all() for ours, theirs in zip(one[:4], other[:4], strict=True))
        envs.send(actions)
        assert envs.recv(1).env_ids.tolist() == [3]
        envs.recv(3)
        assert "newest-first" in str(envs.explain())
    with pytest.raises(EngineRefused, match="cannot give up on an env that hangs"):
        made(theirs["NewestFirst"](), timeout=1.0)
    with pytest.raises(EngineRefused, match="the newest-first engine has no option workers"):
        made(theirs["NewestFirst"](), workers=2)


class FailsAtOnce(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        raise OSError("the simulator has gone")


def test_the_timing_trial_of_auto_obeys_on_error():
    with pytest.raises(OSError, match=r"the simulator has gone.*a trial of a few steps, which chooses") as caught:
        vecenv.make(FailsAtOnce, 2)
    assert "choose.py" not in caught.value.remote_traceback
    with vecenv.make(FailsAtOnce, 2, on_error="restart") as envs:
        assert envs.engine.name == "process"
        assert "a trial step failed (OSError: the simulator has gone)" in envs.engine_reason
        envs.reset(seed=0)
        assert envs.step(np.array([0, 1]))[3].all()


@pytest.mark.parametrize("name", ["compiled", "sync", "thread", "process", "asyncio"])
def test_engines_can_do_what_their_facts_say(name: str) -> None:
    """Messages name the engines that declare a fact; `SupportsStates` and `SupportsGatherAsync` are what code asks."""
    with make("CartPole-v1", 2, engine=name) as envs:
        assert isinstance(envs.engine, engines.SupportsStates) == registry.declares(name, "has_states")
        assert isinstance(envs.engine, engines.SupportsGatherAsync) == registry.declares(name, "awaitable")


def test_a_call_that_needs_another_engine_names_all_that_can() -> None:
    with make("CartPole-v1", 2, engine="sync") as envs:
        with pytest.raises(UnsupportedError, match=r"get_state\(\) needs engine='compiled', 'device' or 'mujoco'"):
            envs.get_state()
        with pytest.raises(AttributeError, match="state needs engine='compiled', 'device' or 'mujoco'"):
            _ = envs.state
        with pytest.raises(UnsupportedError, match=r"step_one\(\) needs engine='thread' or 'asyncio'"):
            asyncio.run(envs.step_one(0, 0))
