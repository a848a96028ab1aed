"""The live table, on a terminal that is a string."""

import io

from rich.console import Console

from vecenv.run_training._arguments import Arguments
from vecenv.run_training._display import LiveTable, comparison
from vecenv.run_training._results import Row, Run


def row(iteration, rate, mean):
    seconds = 1000 / rate
    parts = {"sampling_seconds": seconds * 0.5, "connectors_seconds": seconds * 0.1, "sgd_seconds": seconds * 0.4}
    return Row(
        iteration=iteration,
        steps=1000,
        total_steps=1000 * iteration,
        episodes=3 if mean is not None else 0,
        return_mean=mean,
        return_min=mean,
        return_max=mean,
        seconds=seconds,
        total_seconds=seconds * iteration,
        samples_per_second=rate,
        other_seconds=0.0,
        **parts,
    )


def test_the_live_table_fits_a_small_terminal_and_shows_the_newest_row():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    run = Run("packed_vec", [row(1, 250.0, None)])
    with LiveTable(Arguments(iterations=4), console) as live:
        live.begin(run)
        run.rows.append(row(2, 123456.0, 20.25))
        live.update(run)
        live.stopping()
        live.update(run)
    text = console.file.getvalue()
    for part in ("packed_vec", "1/4", "2/4", "20.2", "123,456", "4 ms 50%", "2.0 s", "Ctrl-C again stops at once"):
        assert part in text
    assert "…" not in text  # nothing was cut off
    assert text.count("\x1b[?25h") == 1  # the cursor is back


def test_the_comparison_says_how_many_times_faster():
    runs = [
        Run("vec", [row(1, 10.0, 9.0), row(2, 100.0, 10.0)]),
        Run("native", [row(1, 50.0, 9.0), row(2, 750.0, None)]),
    ]
    console = Console(file=io.StringIO(), width=110)
    console.print(comparison(Arguments(), runs))
    lines = [line.split() for line in console.file.getvalue().splitlines() if line.startswith(("vec", "native"))]
    assert [line[:3] for line in lines] == [["vec", "100", "1.0"], ["native", "750", "7.5"]]
    assert "9.0" in lines[1]
