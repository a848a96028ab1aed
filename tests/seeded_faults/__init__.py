"""Mistakes seeded into the source on purpose, to see which tests notice them: `python -m tests.seeded_faults`."""
