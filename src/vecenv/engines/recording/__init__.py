"""The recorder: it decorates an engine and keeps what is needed to run the current episode of every env again."""
