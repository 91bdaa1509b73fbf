"""Shoal's command line, configuration and composition root: the only place that knows all parts."""
