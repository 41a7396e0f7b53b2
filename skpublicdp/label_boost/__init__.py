"""LabelBoost (Beimel, Nissim and Stemmer 2015): a private learner that requires few labels."""

from skpublicdp.label_boost.classifier import LabelBoostClassifier

__all__ = ["LabelBoostClassifier"]
