"""Agents, the trainer, evaluation, and the command `ftw`."""
