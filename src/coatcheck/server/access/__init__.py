"""Who may do what, how often, and where it is written down."""
