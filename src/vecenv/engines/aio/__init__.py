"""The asyncio engine: thousands of slow envs (tools, browsers, language models, remote simulators) in one process."""
