"""TPC-H: generated data in both servers, the 22 queries compared."""
