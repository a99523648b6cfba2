"""What users hold: a fitted model, from `fit` to its file, its stream and its forecasts."""
