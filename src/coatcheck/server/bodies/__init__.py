"""Running the body of a tool, in a task or out of one."""
