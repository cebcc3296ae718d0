"""Face 1: every tool, resource and prompt of every server, under its server's name."""
