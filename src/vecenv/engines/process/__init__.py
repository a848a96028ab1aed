"""The process engine: Python envs in worker processes, columns in shared memory."""
