"""Audit of the package: claimed and attained privacy of every public estimator.

``python -m tests.audit [NAME ...]`` runs the checks and prints the table of
tests/audit/checks.md, with a verdict below it.
"""
