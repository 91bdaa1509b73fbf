"""A small Django project: settings from the environment, one application with the common kinds of fields."""
