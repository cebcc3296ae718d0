"""`tools/call`: who becomes a task, and how."""
