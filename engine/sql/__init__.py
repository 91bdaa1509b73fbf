"""From text to an analysed statement: parser/ makes the raw tree (ast/), analyze/ makes the analysed tree (tree.py).

    parser/             PostgreSQL's grammar
    dialects/           translates statements from the SQL of other databases to PostgreSQL's
    ast/                nodes of the raw tree, one file for a group of statements
    analyze/            names, types, operators, collations, views, domains
    tree.py             nodes of the analysed tree: every name resolved, every expression typed
    tree_records.py     parts of its nodes that are not nodes
    tree_walk.py        walks and copies of both trees, and searches in them
    lift.py             replaces literals by parameters, so that statements that differ in them share one plan
    normalize.py        statements without their constants, as pg_stat_statements shows them
    implication.py      whether conditions imply another one, such as the predicate of a partial index
    folding.py          constants that decide the value of an expression, such as NULL
    levels.py           splits one query level into two;  set_places.py  set-returning functions outside the select list
    stages.py           queries with calls of functions that run statements, as parts of which each needs one path
    parts.py            statements of several parts: changes inside WITH (engine/statements/compound.py runs them)
    privileges.py       the privileges that a statement needs; tests/rights compares them with PostgreSQL
    row_security.py     the conditions and checks of row security policies, put into an analysed statement
    need_order.py       the order of permission errors, as in PostgreSQL's plans
    barriers.py         views WITH (security_barrier): expressions that must run after the view's conditions
    deparse.py          analysed trees back to text: deparse_expressions.py; deparse_names.py has the present names

Stored texts of views: `Source` in catalog/schema.py, analyze/views.py. Changes through views: analyze/updatable.py.
SEARCH and CYCLE of a recursive query: analyze/search_cycle.py.
"""
