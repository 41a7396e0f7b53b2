"""Private marginal tables of integer-coded columns."""
