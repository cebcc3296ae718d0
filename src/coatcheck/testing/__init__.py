"""For those who write stores: builders of tasks, and the contract every store must keep."""
