"""`python -m coatcheck` is the command line."""

from coatcheck.cli import main

main()
