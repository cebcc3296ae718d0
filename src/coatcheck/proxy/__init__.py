"""The proxy: tasks for every MCP server there is."""
