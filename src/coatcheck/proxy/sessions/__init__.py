"""Sessions: what the proxy has for each of its clients."""
