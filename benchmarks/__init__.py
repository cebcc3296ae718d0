"""What coatcheck costs, measured against a naive baseline or a bound: `python -m benchmarks --help`."""

import logging

# The report names the SQLite version; every process warning of it once more would bury the table.
logging.getLogger("coatcheck").setLevel(logging.ERROR)
