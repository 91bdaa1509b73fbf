"""From text to an analysed statement: parse (parser/) -> ast -> analyse (analyze/) -> tree -> rules/ -> a path."""
