"""Full text search (PostgreSQL 16 manual, chapter 12).

    parser           splits a text into tokens of 23 types
    configurations   a configuration selects the dictionary that converts tokens of a type to lexemes
    vectors          tsvector: lexemes with positions and weights
    queries          tsquery: operands and operators, and how to parse them
    words            the syntax of operands of both types;  web  websearch_to_tsquery
    query_matches    whether a tsvector matches a tsquery
    ranking          ts_rank and ts_rank_cd;  headline  ts_headline

The internal form of both types is the text that PostgreSQL prints, which contains the whole value.
"""
