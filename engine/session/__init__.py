"""One connection's state, and what happens to a statement between the wire and the executors."""
