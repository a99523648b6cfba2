"""Streams, files and features: the only room that knows dataframes, and one that knows no jax."""

from latenttrack.data.embedded import airports
from latenttrack.data.features import Pipeline, PipelineState
from latenttrack.data.preparing import prepare
from latenttrack.data.reading import Table, read_table, to_series
from latenttrack.data.registry import load_stream
from latenttrack.data.series import Sequences, Series, require_learnable
from latenttrack.data.stages import Calendar, Lags, MissingIndicator, Sentinels, Stage, Standardise
from latenttrack.data.synthetic import STREAMS, Synthetic

__all__ = [
    "STREAMS",
    "Calendar",
    "Lags",
    "MissingIndicator",
    "Pipeline",
    "PipelineState",
    "Sentinels",
    "Sequences",
    "Series",
    "Stage",
    "Standardise",
    "Synthetic",
    "Table",
    "airports",
    "load_stream",
    "prepare",
    "read_table",
    "require_learnable",
    "to_series",
]
