"""Tasks over MCP 2025-11-25."""
