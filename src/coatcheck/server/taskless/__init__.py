"""Clients that know no tasks: their calls are held, or answered with a ticket that a few tools take."""
