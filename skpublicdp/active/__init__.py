"""Private active learning by subsampling (Beimel, Nissim and Stemmer 2015)."""

from skpublicdp.active.learner import SubsamplingActiveLearner

__all__ = ["SubsamplingActiveLearner"]
