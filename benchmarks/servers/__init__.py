"""The same four tools on coatcheck, on FastMCP and on the bare SDK, each as a program of its own.

`plain` adds two numbers, `noop` is a task that ends at once, `nap` one that sleeps, `running` tells how many sleep.
"""
