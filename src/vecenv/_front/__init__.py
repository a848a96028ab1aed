"""The vector env that users hold: call order, autoreset, seeding, results."""
