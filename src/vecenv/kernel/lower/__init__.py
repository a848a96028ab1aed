"""From a kernel to a resolved program, its columns and the row transition. Nothing here depends on a backend."""
