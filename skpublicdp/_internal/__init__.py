"""Internals shared by estimators: parameter checks, error redaction, threads and HTML."""
