"""A sensor that failed in truth: with the gate the raw stream is as good as the clean one."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("LATENTTRACK_DATA") or ROOT.parent / "shared" / "data")


@pytest.mark.slow
@pytest.mark.skipif(not any(SHARED.glob("jena_*2009_2016*")), reason=f"the Jena file is not in {SHARED}")
def test_with_the_gate_a_failed_sensor_does_no_harm():
    spec = importlib.util.spec_from_file_location("gate_benchmark", ROOT / "benchmarks" / "gate.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    stretch = bench.load_stretch(1500, SHARED)
    assert (stretch.raw.x == bench.SENTINEL).any()
    assert np.isnan(stretch.clean.x).any()
    for name in ("relu", "rls"):
        model = bench.train(stretch, name, epochs=1)
        raw, gated, clean = (
            bench.score(model, series, gate)
            for series, gate in ((stretch.raw, "off"), (stretch.raw, "hold"), (stretch.clean, "hold"))
        )
        assert abs(gated.after - clean.after) < clean.error
        assert gated.during == pytest.approx(clean.during)
        assert raw.during > clean.during + 1.0
    assert raw.after > clean.after + clean.error  # least squares without a gate: ruined for long
