"""The meta tools, by what they are about."""
