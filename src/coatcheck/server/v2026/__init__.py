"""Tasks over MCP 2026-07-28: the extension `io.modelcontextprotocol/tasks`."""
