"""`vecenv list`, `check`, `bench`: what is there, is it right, how fast is it."""

import ast
import json

import pytest

from vecenv.cli._contestants import measure
from vecenv.engines import registry
from vecenv.kernel.language.registry import kernel_ids


def test_list_has_every_kernel_and_says_why_the_rest_is_not_there(inside):
    found = json.loads(inside("list", "--json")[0])
    assert {one["id"] for one in found["envs"] if one.get("engine") == "compiled"} == set(kernel_ids())
    assert [one["name"] for one in found["engines"]] == list(registry.names())
    assert all(one["missing"] is None for one in found["engines"])
    for one in found["packages"]:
        assert one["missing"] is None or one["missing"].startswith("pip install")
    retired = next(one for one in found["envs"] if one["id"] == "Hopper-v2")
    assert "retired" in retired["missing"]


@pytest.mark.parametrize("arguments", [("list",), ("list", "--all"), ("list", "cheetah")])
def test_narrow_tables_lose_nothing(inside, monkeypatch, arguments):
    found = {}
    for width in (900, 60):
        monkeypatch.setenv("COLUMNS", str(width))
        found[width], _ = inside(*arguments)
        assert max(map(len, found[width].splitlines())) <= width
    assert "…" not in found[60]
    narrow, wide = (sorted("".join(found[width].replace("─", "").split())) for width in (60, 900))
    assert narrow == wide


@pytest.mark.parametrize("width", ["80", "120"])
def test_tables_fit_the_terminal(inside, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    out, _ = inside("list", "--all")
    assert max(map(len, out.splitlines())) <= int(width)
    assert "CartPole-v1 " in out
    assert "g x_init y_init" in inside("list", "pendulum")[0]


def results(out):
    found = json.loads(out)
    return found, {one["check"]: one for one in found["checks"]}


def test_a_good_env_passes_and_learns_which_engine_suits(inside):
    found, checks = results(inside("check", "tests.cli.cli_envs:Walk", "--json", "--strict")[0])
    assert found["ok"]
    assert {one["result"] for one in checks.values()} == {"ok"}
    assert set(checks) == {
        "builds", "spaces", "values", "determinism", "buffer reuse", "api", "pickling", "engines", "speed", "engine"
    }  # fmt: skip
    assert found["engine"]["name"] in ("sync", "process")
    assert set(found["engine"]["steps_per_second"]) == {"sync", "thread", "process"}


@pytest.mark.parametrize(
    ("name", "check", "told"),
    [
        ("GlobalRandom", "determinism", "draw from self.np_random"),
        ("Nan", "values", "step 3: the observation has NaN"),
        ("WrongShape", "values", "shape (3,)"),
        ("NoSpaces", "spaces", "observation_space is None"),
        ("Broken", "builds", "no licence"),
        ("Raises", "values", "the physics exploded"),
        ("Wordy", "values", "points'; it must be a finite number"),
        ("Huge", "values", "it must be a finite number"),
        ("Bytes", "values", "the reward is b'1.5'; it must be a finite number"),
    ],
)
def test_a_bad_env_fails_the_check_that_names_its_fault(inside, name, check, told):
    found, checks = results(inside("check", f"tests.cli.cli_envs:{name}", "--json", "--steps", 100, code=1)[0])
    assert not found["ok"]
    assert checks[check]["result"] == "failed"
    assert told in f"{checks[check]['message']}; {checks[check]['advice']}"


def test_every_fault_is_reported_at_once_with_advice(inside):
    found = json.loads(inside("check", "tests.cli.cli_envs:Faulty", "--json", "--steps", 60, code=1)[0])
    faults = [one for one in found["checks"] if one["result"] not in ("ok", "skipped")]
    for message, advice in (
        ("the observation has NaN", "look for a division by zero"),
        ("shape (3,)", "declare the space they are in"),
        ("the reward is inf", "return float(reward)"),
        ("terminated is 0, not a bool", "return bool(terminated)"),
        ("the info is [], not a dict", "return {} if there is nothing"),
        ("differs between two runs", "draw from self.np_random"),
    ):
        assert [one["advice"] for one in faults if message in one["message"] and advice in one["advice"]], message
    assert all(one["advice"] for one in faults)
    assert not any(one["advice"] for one in found["checks"] if one["result"] == "ok")
    shown = inside("check", "tests.cli.cli_envs:Faulty", "--steps", 60, code=1)[0]
    assert sum(line.strip().startswith("-> ") for line in shown.splitlines()) == len(faults)


def test_no_fault_is_left_out_and_each_has_a_line_of_advice(inside):
    out = inside("check", "tests.cli.cli_envs:Careless", "--json", "--steps", "1e2", code=1)[0]
    faults = [one for one in json.loads(out)["checks"] if one["result"] != "ok"]
    assert {one["check"] for one in faults} == {"buffer reuse", "api", "engines"}
    assert {one["result"] for one in faults if one["check"] == "buffer reuse"} == {"warning", "failed"}
    differing = [one["message"] for one in faults if one["check"] == "engines"]
    assert ["'thread'" in differing[0], "'process'" in differing[1]] == [True, True]
    assert sum(one["check"] == "api" for one in faults) > 3
    assert all(one["advice"] for one in faults)


def test_all_faults_of_one_observation_are_named_once(inside):
    out = inside("check", "tests.cli.cli_envs:Outside", "--steps", 60, code=1)[0]
    found, checks = results(inside("check", "tests.cli.cli_envs:Outside", "--json", "--steps", 60, code=1)[0])
    faults = [one for one in found["checks"] if one["result"] == "failed"]
    assert [one["message"].partition(": ")[2] for one in faults] == [
        "the observation has NaN",
        "the observation has shape (3,), its space (1,)",
        "the observation has 50 at [1], its space -10 ... 10",
    ]
    assert all(one["advice"] and one["check"] == "values" for one in faults)
    skipped = {name for name, one in checks.items() if one["result"] == "skipped"}
    assert skipped == {"api", "engines", "speed"}
    assert checks["engines"]["message"] == "not run, because 'values' failed"
    assert "tests.cli.cli_envs:Outside: 1 of 6 checks failed, 3 skipped\n" in out


def test_an_exception_of_the_env_is_named_once(inside):
    for name, failed in (("Raises", "values"), ("Boom", "engines")):
        out = inside("check", f"tests.cli.cli_envs:{name}", "--steps", 100, code=1)[0]
        assert out.count("the physics exploded") == 1
        assert f"tests.cli.cli_envs:{name}: 1 of " in out
        _, checks = results(inside("check", f"tests.cli.cli_envs:{name}", "--steps", 100, "--json", code=1)[0])
        assert [check for check, one in checks.items() if one["result"] == "failed"] == [failed]
        assert checks["speed"]["result"] == "skipped"


def test_what_is_no_env_is_told_what_to_be(inside):
    _, checks = results(inside("check", "tests.cli.cli_envs:NoEnv", "--json", code=1)[0])
    assert "it is a NoEnv, not a gymnasium.Env" in checks["builds"]["message"]
    assert "derive the class from gymnasium.Env" in checks["builds"]["advice"]


def test_an_env_that_reuses_its_array_is_warned_of(inside):
    _, checks = results(inside("check", "tests.cli.cli_envs:OneArray", "--json", "--steps", 60)[0])
    assert checks["buffer reuse"]["result"] == "warning"
    inside("check", "tests.cli.cli_envs:OneArray", "--strict", "--steps", 60, code=1)


def test_a_kernel_is_compared_with_its_native_code(inside):
    found, checks = results(inside("check", "tests.cli.cli_envs:Slide", "--json", "--steps", 100)[0])
    assert "compiled" in checks["engines"]["message"]
    assert "native code has the bits of Python" in checks["kernel"]["message"]
    assert checks["coverage"]["message"].startswith(("never ran: ", "every line of its functions ran"))
    assert found["engine"]["name"] == "compiled"


@pytest.mark.parametrize("env", ["CartPole-v1", "tests.cli.cli_envs:Slide"])
def test_the_text_of_native_code_is_shown(inside, env):
    out, _ = inside("check", env, "--show-native")
    defined = [node.name for node in ast.parse(out).body if isinstance(node, ast.FunctionDef)]
    assert defined[-3:] == ["block", "wrong", "run"]
    assert {"reset", "step", "observe"} <= set(defined)
    assert json.loads(inside("check", env, "--show-native", "--json")[0]) == {
        "env": env, "backend": "numba", "text": out
    }  # fmt: skip


def test_the_text_of_native_code_of_a_file_is_shown_by_the_real_command(command):
    (command.directory / "my.py").write_text("from tests.cli.cli_envs import Slide as Env\n")
    assert "s__x = as_float64__(s__x + (p__speed if action__0 == 1 else -p__speed))" in command(
        "check", "my.py:Env", "--show-native"
    ).stdout  # fmt: skip


@pytest.mark.parametrize("env", ["tests.cli.cli_envs:Walk", "LunarLander-v3"])
def test_an_env_without_a_kernel_has_no_native_code_to_show(inside, env):
    err = inside("check", env, "--show-native", code=2)[1]
    assert f"{env} has no kernel" in err
    assert "@vecenv.kernel" in err


def test_a_file_is_as_good_as_a_module(inside, tmp_path):
    (tmp_path / "mine").mkdir()
    source = "from tests.cli.cli_envs import Walk\n\n\nclass Lonely(Walk):\n    pass\n"
    (tmp_path / "mine" / "lonely_env.py").write_text(source)
    out, _ = inside("check", "mine/lonely_env.py:Lonely", "--steps", 60)
    assert "all checks passed" in out
    assert "mine/lonely_env.py:Lonely" in out


@pytest.mark.slow
def test_bench_measures_every_engine_and_library(inside, tmp_path):
    out, _ = inside("bench", "--quick", "--sizes", 2, 80, "--json", "--out", "b")
    found = json.loads(out)
    rates = found["steps_per_second"]
    for name in ("vecenv compiled", "vecenv compiled, fast", "vecenv sync", "vecenv thread", "vecenv process"):
        assert set(rates[name]) == {"2", "80"}
        assert all(rate > 0 for rate in rates[name].values())
    assert set(rates["gymnasium async"]) == {"2"}  # it would start 80 processes
    for name in ("SB3 Dummy", "EnvPool", "PufferLib serial"):
        assert (name in rates) != (name in found["missing"])
    assert json.loads((tmp_path / "b" / "bench.json").read_text()) == found
    assert (tmp_path / "b" / "bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_bench_measures_a_device(inside):
    out, _ = inside("bench", "CartPole-v1", "--device", "cpu", "--quick", "--sizes", 4, "--json")
    rates = json.loads(out)["steps_per_second"]
    assert set(rates) == {"vecenv device cpu, exact", "vecenv device cpu, fast", "vecenv compiled"}
    assert all(rate["4"] > 0 for rate in rates.values())


def test_a_measurement_ends_when_the_last_step_is_done():
    calls = []
    measure(lambda number: calls.append(number), 0.0, lambda: calls.append("waited"))
    assert calls == [0, "waited", 0, "waited"]


def test_bench_prints_a_table_that_fits(inside, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = inside("bench", "tests.cli.cli_envs:Walk", "--quick", "--sizes", 1, 16, 128, "--only", "sync", "process")
    assert max(map(len, out.splitlines())) <= 80
    assert "vecenv process" in out
    assert "gymnasium sync" in out
