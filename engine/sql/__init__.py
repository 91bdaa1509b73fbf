"""From text to an analysed statement: parser/ makes the raw tree (ast/), analyze/ makes the analysed tree (tree.py).

    parser/             PostgreSQL's grammar
    dialects/           statements in the SQL of other databases, carried over to PostgreSQL's
    ast/                nodes of the raw tree, one file for a group of statements
    analyze/            names, types, operators, collations, views, domains
    tree.py             nodes of the analysed tree: every name resolved, every expression typed
    tree_walk.py        what is under a node of either tree, copies with parts replaced, and what a tree contains
    lift.py             literals lifted out of a text, so that statements that differ in them share one plan
    normalize.py        statements without their constants, as pg_stat_statements shows them
    folding.py          constants that decide what is evaluated later, NULLs among them
    levels.py           one query as two levels;  set_places.py  set-returning functions outside the select list
    parts.py            statements of several parts: changes inside WITH (engine/statements/compound.py runs them)
    privileges.py       what a statement needs of its user; compared with PostgreSQL, cell by cell, in tests/rights
    need_order.py       which refusal comes first, as PostgreSQL's plans have it
    barriers.py         views WITH (security_barrier): what may not be computed before they have chosen their rows
    deparse.py          analysed trees back to text: deparse_expressions.py; deparse_names.py has the present names

What the stored text of a view means: `Source` in catalog/schema.py, analyze/views.py. Changes through views:
analyze/updatable.py. SEARCH and CYCLE of a recursive query: analyze/search_cycle.py.
"""
