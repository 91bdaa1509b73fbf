"""Full text search (PostgreSQL 16 manual, chapter 12).

    parser           a text into tokens of 23 types
    configurations   a configuration says by what dictionary tokens of a type become lexemes
    vectors          tsvector: lexemes with positions and weights
    queries          tsquery: operands and operators, how they are read, and what they match
    words            how operands of both types are written;  web  websearch_to_tsquery
    query_matches    whether a tsvector meets a tsquery
    ranking          ts_rank and ts_rank_cd;  headline  ts_headline

Values of both types are carried as the text that PostgreSQL prints for them, which says all that there is to say.
"""
