"""A simulated live investigation: logs as text, a world that moves on, an attacker who reacts."""
