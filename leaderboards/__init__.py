"""Leaderboards that re-play what they rank."""
