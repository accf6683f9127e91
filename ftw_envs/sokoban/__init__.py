"""Sokoban: rules, levels, generator, solver, drawing and the environment."""
