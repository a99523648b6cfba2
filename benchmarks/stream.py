"""The stream that every benchmark runs on; numpy alone, as the PyTorch environment has no more."""

import numpy as np

FEATURES = 13
STEPS = 49_064  # rows of the training part for which an epoch is quoted


def random_walk(steps: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features [steps, 13] that drift slowly, a label [steps] that follows them; about standardised."""
    rng = np.random.default_rng(seed)
    x = np.empty((steps, FEATURES))
    value = rng.normal(size=FEATURES)
    for t, shock in enumerate(rng.normal(size=(steps, FEATURES))):
        value = 0.99 * value + np.sqrt(1 - 0.99**2) * shock
        x[t] = value
    slope = rng.normal(size=FEATURES) / np.sqrt(FEATURES)
    y = np.tanh(x @ slope) + 0.3 * rng.normal(size=steps)
    return x.astype(np.float32), y.astype(np.float32)
