"""Pages of the site that are generated from the code: the API, the command line, errors, engines and examples.

`make docs` writes them into docs/reference/generated, which is not kept in the repository.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import itertools
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]

CLIENTS = {"rsl_rl": "5.0", "skrl": "2.0", "tianshou": "2.0", "torchrl": "0.14.0", "tensordict": "0.14.0"}
"""Libraries that cannot be installed side by side, with versions that vecenv knows. Autodoc reads our modules for them
with stand-ins for those that are missing."""
ABSENT = [name for name in CLIENTS if importlib.util.find_spec(name) is None]

MODULES = {
    "vecenv": "make, and the vector env",
    "vecenv.engines": "options of engines; an engine of your own",
    "vecenv.kernel": "environments as native code",
    "vecenv.kernel.rng": "random numbers in kernels",
    "vecenv.agents": "several agents",
    "vecenv.wrappers": "wrappers",
    "vecenv.trainers": "PPO, A2C, SAC, DQN, loggers",
    "vecenv.presets": "settings of trainers by env id",
    "vecenv.buffers": "replay and rollout buffers, returns",
    "vecenv.evaluation": "evaluation over seeds and scenarios",
    "vecenv.scenarios": "domain randomisation, curricula",
    "vecenv.recording": "recording and replaying failures",
    "vecenv.distributed": "rollouts on a Ray cluster",
    "vecenv.atari": "Atari games",
    "vecenv.mujoco": "MuJoCo tasks",
    "vecenv.testing": "checks for envs, kernels, engines, wrappers",
    "vecenv.gymnasium": "Gymnasium's names",
    "vecenv.sb3": "Stable-Baselines3's names",
    "vecenv.rllib": "RLlib",
    "vecenv.envpool": "EnvPool's names",
    "vecenv.torchrl": "TorchRL",
    "vecenv.tianshou": "Tianshou",
    "vecenv.rsl_rl": "rsl_rl",
    "vecenv.skrl": "skrl",
    "vecenv.gym": "Gym 0.21 to 0.25",
    "vecenv.gym.v26": "Gym 0.26, Gymnasium before 1.0",
    "vecenv.baselines": "OpenAI Baselines",
}
"""Every public module with an `__all__`, and what it is for."""
ABOUT = ("CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md")
"""Files of the repository that are pages of the site too."""
OWN_PAGE = ("VectorEnv", "make")
"""Names of `vecenv` that people look for most."""
LATE = ("evaluate", "Recording", "replay")
"""Names of `vecenv` that other modules define."""


def write(folder: Path) -> None:
    """Write all generated pages into a folder. Pages that have not changed are left alone, so builds are quick."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        **_api_pages(),
        "cli.md": _cli(),
        "errors.rst": _errors(),
        "engines.md": _engines(),
        "examples.md": _examples(),
        "about.md": _about(),
        **{file.name.lower(): file.read_text() for file in map(ROOT.joinpath, ABOUT) if file.exists()},
    }
    for stale in {path.name for path in folder.iterdir()} - pages.keys():
        (folder / stale).unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


# --- the API ---------------------------------------------------------------------------------------------------------


def load(name: str) -> ModuleType:
    """Import a public module; libraries that are not installed are replaced by stand-ins for autodoc."""
    if name.rpartition(".")[2] not in ABSENT:
        return importlib.import_module(name)
    from sphinx.ext.autodoc.mock import mock as stand_ins

    known = {"rsl-rl-lib": CLIENTS["rsl_rl"], **CLIENTS}
    with stand_ins(ABSENT), mock.patch.object(importlib.metadata, "version", known.__getitem__):
        return importlib.import_module(name)


def public_names(module: ModuleType) -> list[str]:
    """The names that a module exports, without its own modules."""
    names = [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]
    return [name for name in names if not name.startswith("__")]


def _api_pages() -> dict[str, str]:
    pages: dict[str, str] = {}
    _described.clear()
    for name in MODULES:
        module = load(name)
        names = public_names(module)
        if name == "vecenv":
            for own in OWN_PAGE:
                pages[f"vecenv.{own}.rst"] = _title(f"vecenv.{own}") + _entry("vecenv", own, getattr(module, own))
            names = [one for one in names if one not in OWN_PAGE]
        pages[f"{name}.rst"] = _module_page(name, module, names)
    return pages


def _module_page(name: str, module: ModuleType, names: list[str]) -> str:
    text = _title(name)
    text += f".. automodule:: {name}\n   :no-members:\n\n" if name != "vecenv" else _root_words()
    if name == "vecenv.kernel":
        text += ".. autofunction:: vecenv.kernel.language.define.kernel\n   :no-index:\n\n"
    return text + "".join(_entry(name, one, getattr(module, one)) for one in names)


def _root_words() -> str:
    others = "".join(f"* ``vecenv.{name}``: see :py:obj:`{_home(name)}`\n" for name in LATE)
    return (
        ":doc:`vecenv.make` and :doc:`vecenv.VectorEnv` have pages of their own. "
        f"Three names are those of other modules:\n\n{others}\n"
    )


def _home(name: str) -> str:
    return f"vecenv.{'evaluation' if name == 'evaluate' else 'recording'}.{name}"


_described: dict[int, str] = {}
"""What has an entry, by identity: some names are exported by two modules, and the second entry is not indexed."""


def _entry(module: str, name: str, thing: Any) -> str:
    path = f"{module}.{name}"
    home = _described.setdefault(id(thing), path)
    again = "" if home.rpartition(".")[0] == module else "   :no-index:\n"
    if inspect.isclass(thing):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
        stops = ", ".join(_foreign(thing))
        inherited = f"   :inherited-members: {stops}\n" if kind == "autoclass" else ""
        return f".. {kind}:: {path}\n{again}   :members:\n{inherited}   :show-inheritance:\n\n"
    if callable(thing) and not isinstance(thing, type(Any)):
        return f".. autofunction:: {path}\n{again}\n"
    return f".. autodata:: {path}\n{again}\n"


def _foreign(thing: type) -> list[str]:
    """The bases whose members are described elsewhere: those of other libraries, and public ones of vecenv."""
    documented = {base for base in thing.__mro__[1:] if _is_public(base)}
    outside = [base for base in thing.__mro__[1:] if base in documented or not base.__module__.startswith("vecenv")]
    return list(dict.fromkeys(base.__name__ for base in outside))


def _is_public(thing: type) -> bool:
    homes = (sys.modules.get(name) for name in MODULES)
    return any(
        home is not None and thing.__name__ in home.__all__ and getattr(home, thing.__name__) is thing for home in homes
    )


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n\n"


def to_restructured_text(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Docstrings here are plain text with Google's sections, `code` in single backticks and indented examples."""
    lines[:] = _inline(_indented_code(lines))


_SECTION = re.compile(
    r"\s*(Args|Returns|Raises|Attributes|Yields|Examples?|Note|Notes|Warns|Warnings|Keyword Args):\s*$"
)


def _indented_code(lines: Iterable[str]) -> list[str]:
    """Paragraphs that are indented behind a blank line become blocks of code."""
    found: list[str] = []
    in_section = code = returns = False
    for line in lines:
        blank = not line.strip()
        depth = len(line) - len(line.lstrip())
        if not blank and _SECTION.match(line):
            in_section, code = True, False
        elif not blank and depth == 0:
            in_section, code = False, False
        if returns and not blank:
            line = f"{line[:depth]}: {line[depth:]}"  # no type is written here: what is before a colon is not one
        returns = _SECTION.match(line) is not None and line.strip() in ("Returns:", "Yields:")
        starts = not blank and not in_section and depth >= 2 and found and not found[-1].strip() and not code
        if starts:
            found += [_Code(".. code-block:: python"), _Code("")]
            code = True
        found.append(_Code(line) if code and not blank else line)
    return found


class _Code(str):
    """A line of code, which is left as it is."""


def _inline(lines: list[str]) -> list[str]:
    """Markdown's inline marks as those of reStructuredText. Code in backticks may go on in the next line."""
    found: list[str] = []
    for is_code, group in itertools.groupby(lines, lambda line: isinstance(line, _Code)):
        if is_code:
            found += group
            continue
        parts = re.split(r"(``[^`]+``|`[^`]+`)", "\n".join(group))
        for index in range(1, len(parts), 2):
            parts[index] = f"``{parts[index].strip('`')}``" + (r"\ " if re.match(r"\w", parts[index + 1]) else "")
        parts[::2] = map(_escape, parts[::2])
        found += "".join(parts).split("\n")
    return found


def _escape(part: str) -> str:
    part = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r"\1 (\2)", part)
    part = re.sub(r"(?<!\\)\*", r"\\*", part)
    part = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part)
    return part.replace("|", r"\|").replace("`", r"\`")


# --- errors ----------------------------------------------------------------------------------------------------------


def _errors() -> str:
    from vecenv import errors

    first, *parts = inspect.cleandoc(errors.__doc__ or "").split("\n\n")
    text = _title("Errors") + f"{first}\n\n"
    for part in parts:
        if "├" in part:
            text += ".. code-block:: text\n\n" + textwrap.indent(part, "   ") + "\n\n"
        else:
            text += "\n".join(_inline(part.splitlines())) + "\n\n"
    classes = [
        thing for thing in vars(errors).values() if inspect.isclass(thing) and issubclass(thing, errors.VecenvError)
    ]
    return text + "".join(
        f".. autoexception:: vecenv.errors.{one.__name__}\n   :members:\n   :show-inheritance:\n\n" for one in classes
    )


# --- engines ---------------------------------------------------------------------------------------------------------


def _engines() -> str:
    from vecenv.engines import registry

    kinds = registry.classes()
    text = (
        "# Engines\n\nThis page is written from the registry of engines, which `make`, the command line and the tests "
    )
    text += "read too.\n\n| engine | where environments run | use it for |\n|---|---|---|\n"
    text += "".join(f"| [`{kind.name}`](#{kind.name}) | {kind.where} | {kind.use_for} |\n" for kind in kinds)
    text += (
        "| `auto` (default) | native code if available, else chosen by timing a few steps of one env | "
        "not thinking about it; `envs.engine_reason` says why |\n\n"
    )
    text += "| engine | native code | in parallel | in other processes | `get_state`, `clone` | `await step_one` |"
    text += " `auto` may choose it | needs |\n|---|---|---|---|---|---|---|---|\n"
    for kind in kinds:
        facts = (kind.native, kind.parallel, kind.isolated, kind.has_states, kind.awaitable, kind.automatic)
        needs = f"`pip install '{kind.needs[1]}'`" if kind.needs else ""
        text += f"| `{kind.name}` | {' | '.join('yes' if fact else '' for fact in facts)} | {needs} |\n"
    text += (
        "\nEverything that is not an option here is an argument of [make](vecenv.make.rst) and concerns every engine. "
    )
    text += "How to use the objects, and an engine of your own: [Engines and their options](../../engines.md).\n\n"
    for kind in kinds:
        text += f"## {kind.name}\n\nOptions of {{py:class}}`~vecenv.engines.{kind.__name__}`:\n\n"
        text += "| option | default |\n|---|---|\n"
        text += "".join(f"| `{field.name}` | `{_default(field)}` |\n" for field in dataclasses.fields(kind))
        if kind.cannot:
            text += "\n| cannot honour | because |\n|---|---|\n"
            text += "".join(f"| `{name}` | {why} |\n" for name, why in kind.cannot.items())
        text += "\n"
    return text


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    return "required" if field.default_factory is dataclasses.MISSING else repr(field.default_factory())


# --- the command line ------------------------------------------------------------------------------------------------


def _cli() -> str:
    from vecenv.cli import COMMANDS
    from vecenv.run_training._arguments import PROGRAM, Arguments

    text = (
        "# Commands and their options\n\nThis page is written from the argument parsers. What the commands print, and "
    )
    text += "how to use them: [The command line](../../cli.md).\n\n| command | |\n|---|---|\n"
    text += "".join(f"| [`vecenv {name}`](#vecenv-{name}) | {summary} |\n" for name, summary in COMMANDS.items())
    text += f"| [`{PROGRAM}`](#python-m-vecenv-run-training) | train RLlib's PPO on many environments |\n\n"
    for name in COMMANDS:
        command = importlib.import_module(f"vecenv.cli.{name}")
        head, _, examples = inspect.cleandoc(command.__doc__ or "").partition("\n\nExamples:\n")
        text += f"## vecenv {name}\n\n{head}\n\n```bash\n{inspect.cleandoc(examples)}\n```\n\n"
        text += f"{_options(command.Options)}\n"
    text += f"## {PROGRAM}\n\n[RLlib, in three modes](../../rllib.md) has the commands that people use.\n\n"
    return text + _options(Arguments)


def _options(arguments: type) -> str:
    """A table of what a parser takes."""
    import tyro

    conf = tyro.conf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # tyro has no other way to its parser
        parser = tyro.extras.get_parser(
            arguments, config=(conf.FlagCreatePairsOff, conf.PositionalMetavarFromFieldName, conf.DisallowNone)
        )
    rows = [_option(action) for action in parser._actions if action.dest != "help"]
    return "| option | value | what it does |\n|---|---|---|\n" + "".join(rows)


def _option(action: argparse.Action) -> str:
    names = (
        ", ".join(f"`{name}`" for name in action.option_strings) or f"`{str(action.metavar or action.dest).upper()}`"
    )
    value = str(action.metavar or "") if action.option_strings and action.nargs != 0 else ""
    help_text = re.sub(r"\x1b\[[0-9;]*m", "", str(action.help or "")).strip()
    cells = (names, f"`{value}`" if value else "", help_text)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"


# --- examples --------------------------------------------------------------------------------------------------------


def _examples() -> str:
    """The files of examples/, whole."""
    text = "# Examples\n\nEach file of `examples/` runs by itself in under a minute: `python examples/NAME.py`.\n\n"
    for path in sorted((ROOT / "examples").glob("*.py")):
        words = ast.get_docstring(ast.parse(path.read_text())) or ""
        first = " ".join(words.partition("\n\n")[0].split())
        text += f"## {path.name}\n\n{first}\n\n"
        text += f"```{{literalinclude}} ../../../examples/{path.name}\n:language: python\n```\n\n"
    return text


# --- files outside of docs/ ------------------------------------------------------------------------------------------


def of_repository(app: Any, page: str, source: list[str]) -> None:
    """Links to files of the repository, written for readers of the repository, lead to pages of the site here."""
    copied = page.removeprefix("reference/generated/") in {Path(name).stem.lower() for name in ABOUT}
    upwards = "" if copied else "../" * (page.count("/") + 1)
    text = source[0]
    for name in ABOUT:
        text = text.replace(f"]({upwards}{name}", f"](/reference/generated/{name.lower()}")
    if copied:
        text = text.replace("](docs/", "](/")
        text = re.sub(r"\[([^]]*)\]\((?!/|#|http)[^)]*\)", r"\1", text)  # other files are not on the site
    source[0] = text


PHRASES = {
    "how_to/own_env": (
        "own env in 16 processes",
        "own environment in processes",
        "custom environment",
        "multiprocessing",
        "processes",
    ),
    "how_to/workers": ("how many workers", "number of workers", "number of processes"),
    "how_to/speed": ("make it faster", "speed", "performance", "slow training"),
    "how_to/asynchronous": ("asynchronous", "stragglers", "first ready"),
    "how_to/tool_use": ("tool use", "tools", "language model", "text environment"),
    "how_to/remote_simulator": ("remote simulator", "environment server", "OpenEnv"),
    "how_to/gpu": ("PPO on a GPU", "train on a GPU", "CUDA"),
    "how_to/wandb": ("W&B", "wandb", "Weights & Biases", "logging"),
    "how_to/final_observation": ("final observation", "final_obs", "terminal observation", "bootstrap truncated"),
    "how_to/videos": ("videos", "record a video", "render", "film", "gif"),
    "how_to/nan": ("NaN", "infinity"),
    "how_to/domain_randomisation": ("domain randomisation", "domain randomization", "curriculum"),
    "how_to/atari": ("Atari with frame stacking", "frame stacking", "frame stack"),
    "how_to/sb3": ("Stable-Baselines3", "SB3"),
    "how_to/rllib": ("RLlib", "use with RLlib"),
    "how_to/cluster": ("run on a cluster", "cluster", "several machines"),
    "migration/sb3": ("moving SB3 code", "migrate from Stable-Baselines3"),
    "migration/gymnasium": ("migrate from Gymnasium", "AsyncVectorEnv"),
    "migration/pufferlib": ("migrate from PufferLib",),
    "tutorials/first_kernel": ("writing a kernel", "write a kernel", "first kernel"),
    "tutorials/first_vector_env": ("getting started", "quickstart"),
    "kernels": ("kernel", "language of kernels"),
    "agents": ("several agents", "multi-agent", "multiple agents", "PettingZoo", "self-play"),
    "slow_envs": ("thousands of slow envs", "slow environments", "asyncio", "LLM environments"),
    "reference/generated/vecenv.VectorEnv": ("VectorEnv", "reference of VectorEnv"),
    "explanation/autoreset": ("autoreset",),
    "explanation/seeding": ("seed", "seeding", "reproducibility"),
}
"""What people type to find a page, besides the words on it. Search shows these first, and the index lists them."""


def add_phrases(app: Any, page: str, source: list[str]) -> None:
    """Put the phrases of a page into the index, behind its title."""
    phrases = ", ".join(f"! {phrase}" for phrase in PHRASES.get(page, ()))
    if phrases and page.startswith("reference/generated/"):
        source[0] = f".. index:: {phrases}\n\n{source[0]}"
    elif phrases:
        title, _, rest = source[0].partition("\n")
        source[0] = f"{title}\n\n```{{index}} {phrases}\n```\n{rest}"


def _about() -> str:
    """The page above the copied files."""
    pages = "".join(f"{file.stem.lower()}\n" for file in map(ROOT.joinpath, ABOUT) if file.exists())
    text = "# The project\n\nFiles of the repository. vecenv has the MIT licence.\n\n"
    return f"{text}```{{toctree}}\n:maxdepth: 1\n\n{pages}```\n"
