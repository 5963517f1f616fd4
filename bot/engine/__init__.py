"""Finds speed without a model: the space of launch numbers, a readable rule for them, named rewrites of the source."""
