"""Plumbing that estimators share: parameter checks, redacted errors, threads, HTML."""
