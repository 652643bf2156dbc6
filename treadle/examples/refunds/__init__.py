"""The refund task: an agent, its five tools, and the payments service they call."""
