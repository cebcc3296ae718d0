"""The server over HTTP, and the shorter way for the requests a busy one gets most."""
