"""The ledger, which accounts for one fit, and the budget, which accounts for many."""
