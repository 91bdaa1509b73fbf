"""The rows of foreign tables, which are on other servers.

plans.py        the foreign tables of a statement
"""
