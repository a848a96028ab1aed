"""Tools for testing environments and engines: laws, and small envs that make mistakes visible."""
