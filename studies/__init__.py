"""Studies: long comparisons, a command each, cut into pieces that can be stopped and resumed."""
