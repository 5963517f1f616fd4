"""One short file a kernel, and the table of them."""

from __future__ import annotations

from bot.judge.recipe import Recipe
from bot.judge.recipes import calibration, cross_entropy, dyt, geglu, jsd, layer_norm, rms_norm, softmax

RECIPES: dict[str, Recipe] = {
    "calibration": calibration.RECIPE,
    "cross_entropy": cross_entropy.RECIPE,
    "dyt": dyt.RECIPE,
    "geglu": geglu.RECIPE,
    "jsd": jsd.RECIPE,
    "layer_norm": layer_norm.RECIPE,
    "rms_norm": rms_norm.RECIPE,
    "softmax": softmax.RECIPE,
}
