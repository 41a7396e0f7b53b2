"""Privacy accounting for a single fit (the ledger) and for many fits (the budget)."""
