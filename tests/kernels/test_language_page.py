"""The page of the language in docs/kernels.md says what the checker does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from vecenv.kernel.language import forbidden
from vecenv.kernel.language.array_functions import FUNCTIONS
from vecenv.kernel.language.reference import page, renewed

DOCS = Path(__file__).parents[2] / "docs" / "kernels.md"


def test_the_page_is_what_the_tables_say():
    text = DOCS.read_text()
    assert text == renewed(text), "run: python -m vecenv.kernel.language.reference docs/kernels.md"
    assert text.index("## The language") < text.index("## Write one")


@pytest.mark.parametrize("kind", ["stmt", "expr"])
def test_every_statement_and_expression_of_python_is_allowed_or_refused(kind):
    allowed = {**forbidden.STATEMENTS, **forbidden.EXPRESSIONS}
    parts = {"FormattedValue", "Interpolation", "Index", "ExtSlice", "Num", "Str", "Bytes", "NameConstant", "Ellipsis"}
    nodes = {node.__name__ for node in getattr(ast, kind).__subclasses__() if node.__module__ in ("ast", "_ast")}
    assert nodes - parts <= allowed.keys() | forbidden.SYNTAX_BY_NAME.keys()
    assert not allowed.keys() & forbidden.SYNTAX_BY_NAME.keys()
    assert forbidden.SPELLED.keys() == forbidden.SYNTAX_BY_NAME.keys()


def test_every_function_of_the_tables_is_on_the_page():
    text = page()
    for function in FUNCTIONS.values():
        assert all(f" {name}" in text or f"`{name}" in text for name in function.names)
    for name in (*forbidden.BUILTINS, *forbidden.METHODS_INSTEAD):
        assert name in text
