"""`python -m coatcheck.runners.detached`: started by coatcheck, for one task."""

from coatcheck.runners.detached.child import main

main()
