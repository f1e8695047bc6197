"""The actor's roles: prompts, and the parsing of what comes back. No function here ever receives a reference answer."""
