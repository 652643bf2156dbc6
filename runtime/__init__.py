"""The machinery: pure loop, bus, ledger, models, tools, policy."""
