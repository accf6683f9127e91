"""Players that are programs: the floor and the ceiling of every environment."""
