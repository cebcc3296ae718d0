"""Who may use which server, and how often."""
