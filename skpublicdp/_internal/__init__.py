"""Shared internals of estimators: parameter checks, error redaction, threads and HTML."""
