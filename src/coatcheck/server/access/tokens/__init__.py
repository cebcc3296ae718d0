"""Callers who show a JSON Web Token: whether it is good, and who it says they are."""
