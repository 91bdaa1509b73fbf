"""What the planner makes of every statement that the project has: the record of it, and the test that compares.

python -m tests.golden --write              records again, after a change that is meant to change plans
python -m tests.golden --show TEXT          all that statements with this text become, in full
python -m tests.golden --show TEXT --at COMMIT    the same, and how it differs from what they became there
"""
