"""The Ray engine: actors on any number of machines."""
