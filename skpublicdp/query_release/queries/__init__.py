"""Query classes that a release can answer."""
