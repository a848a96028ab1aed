"""Gymnasium's MuJoCo tasks, one file per family. The first parameter of a task's functions is the state of one env."""
