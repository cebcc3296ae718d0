"""A load generator for servers of the tasks extension, of the standard library only: `python -m benchmarks.load`.

It speaks protocol 2026-07-28 over streamable HTTP with JSON-RPC written by hand, and knows a server only by its address
and the names of its tools, so that the same measurement can be pointed at any of them.
"""
