"""People, what they buy, and labels on it."""
