"""Classifiers under label differential privacy: features are public, and labels are private."""

from skpublicdp.label_privacy.classifier import LabelPrivateClassifier

__all__ = ["LabelPrivateClassifier"]
