"""`vecenv report`: one file with everything, safe to open, and true."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest


class Page(HTMLParser):
    """Collects texts and the addresses that a browser would load."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.sources, self.tags = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "href", "data", "action")]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run, with its result."""
    shutil.copytree(trained[0], tmp_path / "runs" / "one")
    return tmp_path / "runs" / "one"


def test_the_report_has_everything_and_needs_nothing_else(inside, run):
    out, _ = inside("report", "runs/one", "--film")
    assert out == "written to runs/one/report.html\n"
    page = Page((run / "report.html").read_text())
    result = json.loads((run / "result.json").read_text())
    text = " ".join(" ".join(page.texts).split())
    assert len(page.sources) == 2
    assert page.sources[0].startswith("data:image/png;base64,iVBOR")
    assert page.sources[1].startswith("data:image/gif;base64,R0lGOD")
    assert "script" not in page.tags
    assert f"{result['evaluation']['mean']:,.2f}" in text
    assert f"{result['evaluation']['low']:,.2f} ... {result['evaluation']['high']:,.2f}" in text
    for part in ("CartPole-v1 ppo", "rollout_steps 32", "PPO", "steps/s", "kernel"):
        assert part in text
    shares = [int(share) for share in re.findall(r"(?:env|forward|buffer|update|other) (\d+) %", text)]
    assert len(shares) == 5
    assert 97 <= sum(shares) <= 103
    assert f"{result['evaluation']['iqm_low']:,.2f} ... {result['evaluation']['iqm_high']:,.2f}" in text


def test_the_share_of_evaluations_during_training_is_named(inside, tmp_path):
    small = ("--set", "num_envs=4", "rollout_steps=32", "hidden=[16]")
    inside("train", "CartPole-v1", "--name", "e", "--steps", 512, "--eval-every", 128, "--eval-episodes", 5, *small)
    assert 0 < json.loads((tmp_path / "runs/e/result.json").read_text())["time"]["evaluation"] < 1
    inside("report", "runs/e")
    text = " ".join(Page((tmp_path / "runs/e/report.html").read_text()).texts)
    shares = dict(re.findall(r"(env|forward|buffer|update|evaluation|other) (\d+) %", text))
    assert int(shares["evaluation"]) > 0
    assert 97 <= sum(map(int, shares.values())) <= 103


def test_a_run_that_does_not_exist_is_named(inside):
    err = inside("report", "nosuch", code=2)[1]
    assert "there is no run 'nosuch'" in err
    assert "--out" not in err


def test_several_runs_share_a_page(inside, run, tmp_path):
    other = tmp_path / "runs" / "two"
    shutil.copytree(run, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "seed": 7}))
    out, _ = inside("report", "runs/one", "runs/two", "--json")
    assert json.loads(out)["file"] == "report.html"
    page = Page((tmp_path / "report.html").read_text())
    assert len(page.sources) == 3
    assert "two" in page.texts


def test_what_a_run_says_is_text_and_not_code(inside, run):
    config = json.loads((run / "config.json").read_text())
    evil = '<script>alert(1)</script><img src="http://example.org/x">'
    for key in ("env", "algo", "engine_reason", "started"):
        config[key] = evil
    (run / "config.json").write_text(json.dumps({**config, "kwargs": {evil: evil}, "versions": evil}))
    (run / "result.json").write_text(json.dumps({"time": {evil: 1.0, "env": 0.5}, "evaluation": {"mean": evil}}))
    inside("report", "runs/one")
    page = Page((run / "report.html").read_text())
    assert "script" not in page.tags
    assert len(page.sources) == 1
    assert evil in "".join(page.texts)


def test_a_run_that_has_not_ended_has_a_report_too(inside, run):
    (run / "result.json").unlink()
    inside("report", "runs/one")
    text = " ".join(Page((run / "report.html").read_text()).texts)
    assert "was not evaluated" in text
    assert "No film" in text


def test_wrong_arguments_are_refused(inside, run, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "is not a run" in inside("report", "empty", code=2)[1]
    assert "name at least one run" in inside("report", code=2)[1]
    assert "--out must be a file .html" in inside("report", "runs/one", "--out", "report.pdf", code=2)[1]
    (run / "result.json").write_text("{")
    assert "damaged" in inside("report", "runs/one", code=2)[1]
