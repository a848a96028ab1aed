"""The command line: `vecenv COMMAND ...`, or `python -m vecenv COMMAND ...`. One file per command.

Exit codes: 0 done, 1 a run or a check failed, 2 wrong arguments, 130 interrupted (143 by SIGTERM).
"""

from vecenv.cli._main import COMMANDS, main

__all__ = ["COMMANDS", "main"]
