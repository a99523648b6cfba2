"""The numbers that the paper printed, as data: its table, its failure rates and its ledger of parameters.

Names of models are those of the registry, names of scores those of a row in `summary.json`. The table is of
one seed: the one whose mean NLL over time is closest to the median over seeds, for LT-structured.
"""

from types import MappingProxyType

TRACKS = ("paper", "paper-clean")  # on which our numbers and the paper's may stand side by side

MODELS = ("lt-structured", "lt-unstructured", "dssm", "vrnn", "mc-dropout", "deep-ensemble", "bbb")
STATISTICS = ("mean", "trimmed", "median", "trimmed_median", "first", "first_or_second")
SCORES = ("nll", "mse")

_ROWS = {
    "nll": {
        "lt-structured": (6.29, 2.44, 2.33, 2.32, 0.588, 0.796),
        "lt-unstructured": (1.22e10, 2.73, 2.62, 2.61, 0.176, 0.658),
        "dssm": (2.97, 2.87, 2.95, 2.93, 0.178, 0.381),
        "vrnn": (3.44, 3.41, 3.39, 3.38, 0.009, 0.046),
        "mc-dropout": (23.19, 10.92, 4.56, 4.49, 0.009, 0.034),
        "deep-ensemble": (29.85, 28.27, 10.62, 10.14, 0.001, 0.012),
        "bbb": (19.20, 17.57, 8.24, 7.86, 0.039, 0.074),
    },
    "mse": {
        "lt-structured": (10095.7, 6.32, 1.98, 1.93, 0.514, 0.752),
        "lt-unstructured": (16978.1, 16.26, 4.68, 4.55, 0.232, 0.701),
        "dssm": (69.68, 45.29, 15.38, 14.82, 0.145, 0.315),
        "vrnn": (112.17, 93.25, 46.82, 45.60, 0.025, 0.066),
        "mc-dropout": (14906.4, 114.46, 65.81, 64.18, 0.040, 0.077),
        "deep-ensemble": (1584.85, 139.94, 76.92, 74.61, 0.021, 0.038),
        "bbb": (3543.0, 124.60, 69.83, 68.13, 0.023, 0.051),
    },
}

# TABLE[model]["nll_trimmed"], TABLE[model]["mse_first_or_second"], ...: shares of steps lie between 0 and 1.
TABLE = MappingProxyType(
    {
        model: MappingProxyType(
            {
                f"{score}_{statistic}": value
                for score in SCORES
                for statistic, value in zip(STATISTICS, _ROWS[score][model], strict=True)
            }
        )
        for model in MODELS
    }
)

# Share of the seeds whose largest NLL exceeds 1e6; for the other models the paper prints no number.
FAILURE_RATES = MappingProxyType({"lt-structured": 0.12, "lt-unstructured": 0.04})

# Trained numbers: all, and those that are needed to predict.
PARAMETERS = MappingProxyType(
    {
        "lt-structured": (20_709, 20_709),
        "lt-unstructured": (21_888, 20_848),
        "dssm": (22_262, 20_630),
        "vrnn": (20_758, 20_758),
        "mc-dropout": (19_112, 19_112),
        "deep-ensemble": (19_100, 19_100),
        "bbb": (20_060, 20_060),
    }
)
