"""Generated statements run on Shoal's row path, on its columnar path and on PostgreSQL, and the answers compared.

    make test                                  a short run
    python -m tests.differential --seconds 600 a longer one, with servers of its own
    python -m tests.differential --seed 17     one scenario again, every statement printed

A scenario is made from its seed alone: tables, rows, and statements that the three sides run one after another, each
in its own schema. `generate.py` makes it, `compare.py` runs it and says what differs.
"""
