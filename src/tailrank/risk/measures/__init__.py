"""Risk measures: what a return is worth, each a function of a law and of samples, and the way to its best policy."""

from tailrank.risk.measures.base import Certainty, Measure
from tailrank.risk.measures.cvar import CVaR
from tailrank.risk.measures.entropic import Entropic
from tailrank.risk.measures.evar import EVaR
from tailrank.risk.measures.expectile import Expectile
from tailrank.risk.measures.mean import Mean
from tailrank.risk.measures.mean_cvar import MeanCVaR
from tailrank.risk.measures.mean_variance import MeanVariance
from tailrank.risk.measures.registry import make_measure
from tailrank.risk.measures.spectral import Spectral
from tailrank.risk.measures.target import Target
from tailrank.risk.measures.utility import Utility
from tailrank.risk.measures.value_at_risk import VaR
from tailrank.risk.measures.worst_case import WorstCase

__all__ = [
    "CVaR",
    "Certainty",
    "EVaR",
    "Entropic",
    "Expectile",
    "Mean",
    "MeanCVaR",
    "MeanVariance",
    "Measure",
    "Spectral",
    "Target",
    "Utility",
    "VaR",
    "WorstCase",
    "make_measure",
]
