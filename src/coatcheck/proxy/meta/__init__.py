"""Face 2: the meta tools, for clients that know no tasks, and for models that want to see and steer everything."""
