"""Language models as agents: loading, tokens, sampling, gradient steps, the tiny base."""
