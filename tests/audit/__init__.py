"""Audit of the package: claimed and attained privacy of every public estimator.

``python -m tests.audit [NAME ...]`` runs the checks and prints the table of
docs/user_guide/why_believe_it.md, with a verdict below it.
"""
