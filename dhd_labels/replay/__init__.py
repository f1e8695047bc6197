"""Which calls a run makes (plan, pure), how they are made (run, resumable) and where they are kept (store)."""
