"""Active learning by subsampling (Beimel, Nissim and Stemmer 2015): a private learner that asks."""

from skpublicdp.active.learner import SubsamplingActiveLearner

__all__ = ["SubsamplingActiveLearner"]
