"""Tables, figures and pages from records; knows no jax, and matplotlib only once something is drawn."""

from latenttrack.report.figures import (
    error_over_time,
    forecast_week,
    pit_histograms,
    save_figures,
    uncertainty_split,
)
from latenttrack.report.tables import markdown_table, score_table

__all__ = [
    "error_over_time",
    "forecast_week",
    "markdown_table",
    "pit_histograms",
    "save_figures",
    "score_table",
    "uncertainty_split",
]
