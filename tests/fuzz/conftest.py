"""Says how many files were tried."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from tests.fuzz.fuzzing import TRIED

    terminalreporter.write_line(f"fuzzing: {TRIED['files']:,} files tried")
