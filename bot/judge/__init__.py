"""The trusted guest house: inputs, oracle and tolerance. Never imports variant code, never learns where the target
is."""
