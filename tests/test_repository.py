"""Files of the repository say the same: versions, platforms, what is pinned, what is run."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import vecenv
from tests.seeded_faults.faults import FAULTS

yaml: Any = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def parsed(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def pinned(package: str) -> str:
    """The version in constraints.txt."""
    found = re.search(rf"^{package}==(\S+)$", read("constraints.txt"), re.MULTILINE)
    assert found, package
    return found[1]


def test_the_version_is_defined_once_and_repeated_correctly() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/vecenv/_util/version.py"
    assert parsed("CITATION.cff")["version"] == vecenv.__version__
    newest = re.search(r"^## (\S+) \((unreleased|20\d\d-\d\d-\d\d)\)$", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == vecenv.__version__


def test_the_citation_has_what_the_format_requires() -> None:
    """Citation File Format 1.2.0: four keys are required; what else there is must be a key of the format."""
    citation = parsed("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert citation.keys() <= {
        *("cff-version", "message", "type", "title", "abstract", "authors", "version", "license", "keywords"),
        *(
            "date-released",
            "repository-code",
            "url",
            "doi",
            "preferred-citation",
            "references",
            "identifiers",
            "contact",
        ),
    }
    assert all(author.keys() & {"name", "family-names"} for author in citation["authors"])
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["keywords"] == PROJECT["project"]["keywords"]


def test_workflows_run_every_python_and_platform_that_is_promised() -> None:
    matrix = parsed(".github/workflows/test.yml")["jobs"]["core"]["strategy"]["matrix"]
    promised = [line.rpartition(" :: ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == promised == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["project"]["requires-python"] == f">={promised[0]}"
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_have_few_rights_and_an_end(path: Path) -> None:
    workflow = parsed(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        if "uses" in job:  # another workflow of ours, whose jobs are looked at there
            assert ROOT / job["uses"] in WORKFLOWS, name
            continue
        assert job["timeout-minutes"] <= 45, name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert "@" in step.get("uses", "@"), "an action without a version"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_commands_and_files_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([\w.$()/-]+):", read("Makefile").replace("$(VENV)", ".venv"), re.MULTILINE))
    for job in parsed(path)["jobs"].values():
        for step in job.get("steps", ()):
            command = step.get("run", "")
            for target in re.findall(r"\bmake (\S+)", command):
                assert target in targets or target == "docs", target
            for file in re.findall(r"(?:tests|examples)/[\w./]+", command):
                assert (ROOT / file).exists(), file


def test_releases_are_published_after_all_tests() -> None:
    jobs = parsed(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["needs"] == ["tests", "try"]
    assert jobs["tests"] == {"uses": "./.github/workflows/test.yml"}
    assert "workflow_call" in parsed(".github/workflows/test.yml")[True]  # YAML reads the key `on` as true


def test_a_source_distribution_has_every_file_of_the_repository_that_tests_read() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for path in (
        ".github",
        ".pre-commit-config.yaml",
        "CITATION.cff",
        "Makefile",
        "constraints.txt",
        "examples",
        "docs",
    ):
        assert f"/{path}" in included


def test_releases_are_published_without_a_password() -> None:
    jobs = parsed(".github/workflows/release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == "pypi"
    assert all("id-token" not in job.get("permissions", {}) for name, job in jobs.items() if name != "publish")
    assert "secrets." not in read(".github/workflows/release.yml")


def test_the_core_of_all_platforms_is_files_that_exist() -> None:
    paths = read("tests/platforms/core.txt").splitlines()
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert sorted(set(paths)) == sorted(paths)


def test_pre_commit_runs_the_pinned_ruff() -> None:
    (local,) = parsed(".pre-commit-config.yaml")["repos"]
    hooks = {hook["id"]: hook for hook in local["hooks"]}
    for hook in ("ruff-check", "ruff-format"):
        assert hooks[hook]["additional_dependencies"] == [f"ruff=={pinned('ruff')}"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_templates_have_what_github_requires(path: Path) -> None:
    template = parsed(path)
    if path.stem == "config":
        assert template.keys() <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= template.keys()
    fields = [field for field in template["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["type"] in ("textarea", "input", "dropdown", "checkboxes") for field in fields)
    assert all(field["attributes"]["label"] for field in fields)


def test_no_file_names_the_host_of_a_package_registry() -> None:
    hosts = re.compile(r"\b(?:pypi|pythonhosted|npmjs)[.](?:org|com)\b")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no checkout")
    names = [name for name in done.stdout.splitlines() if not name.endswith((".png", ".gif", ".npz"))]
    found = [name for name in names if hosts.search((ROOT / name).read_text(encoding="utf-8", errors="replace"))]
    assert found == []


def test_the_notebook_is_small_and_has_no_magic() -> None:
    """So that any Python can run its cells, and a change of it can be read."""
    notebook = json.loads(read("examples/first_steps.ipynb"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) >= (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert len(read("examples/first_steps.ipynb")) < 100_000
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in code if re.search(r"^\s*[%!]", cell, re.MULTILINE)] == []


def test_every_seeded_fault_still_fits_the_source() -> None:
    sources = {fault.file: read(f"src/vecenv/{fault.file}") for fault in FAULTS}
    assert [fault.breaks for fault in FAULTS if sources[fault.file].count(fault.old) != 1] == []
