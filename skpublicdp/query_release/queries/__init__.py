"""The query classes that a release can answer."""
