"""Open requests that wait for tasks, and what their clients are asked and told meanwhile."""
