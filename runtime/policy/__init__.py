"""Who may do what: rules, approvals, and the grants that prove a yes."""
