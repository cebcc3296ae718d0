"""Tasks from your own code: calls that nobody sent."""
