"""Private marginal tables of integer columns."""
