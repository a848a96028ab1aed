"""Gymnasium's MuJoCo tasks, one file per family."""
