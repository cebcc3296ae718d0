"""Servers behind the proxy, as one session has them: connections that are looked after, and calls under way."""
