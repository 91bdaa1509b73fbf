"""What is known in one place stays there: tests that read the sources of the product."""
