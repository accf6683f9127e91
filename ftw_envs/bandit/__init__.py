"""Bandits that show what a risk-seeking filter does under noise."""
