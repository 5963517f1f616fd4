"""What raw facts mean: estimated times, scores, roofs and bottlenecks. Pure functions, no clock and no GPU."""
