"""Catalogue of all public estimators, each with a tiny domain on which it is verified."""

from __future__ import annotations

from tests.audit.case import Case
from tests.audit.learner_cases import (
    any_classifier_cases,
    boosting_cases,
    label_efficient_cases,
    label_privacy_cases,
    linear_cases,
    ppm_cases,
    private_column_cases,
    rule_cases,
    sanitizer_cases,
    search_cases,
)
from tests.audit.release_cases import conformal_cases, frame_cases, release_cases, score_cases


def catalogue() -> list[Case]:
    """Return the audit cases of all public estimators, which together use all mechanisms."""
    return [
        *rule_cases(),
        *ppm_cases(),
        *search_cases(),
        *boosting_cases(),
        *linear_cases(),
        *label_efficient_cases(),
        *label_privacy_cases(),
        *private_column_cases(),
        *any_classifier_cases(),
        *sanitizer_cases(),
        *release_cases(),
        *frame_cases(),
        *score_cases(),
        *conformal_cases(),
    ]
