"""Full text search in statements, on both paths, beside PostgreSQL."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_documents(both_paths: Pair) -> None:
    both_paths.same(
        "select to_tsvector('english','The Fat Rats ate the quick-brown cats at 3.14 http://a.com/x?y=1 foo@bar.com')",
        "select 'a:1A,2 b c:3C'::tsvector, '''it''''s'' x\\ y:4'::tsvector, ''::tsvector, 'a:0'::tsvector",
        "select 'a b'::tsvector",
        "select 'b:3,2,2A a b:9'::tsvector",
        "select 'a:1x'::tsvector",
        "select '''a'::tsvector",
        "select to_tsquery('english','fat & (rats | !cats:*AB) & the'), plainto_tsquery('The Fat Rats'),"
        " phraseto_tsquery('the cat in the hat'), to_tsquery('simple','a-b <-> c:*')",
        "select to_tsquery('english','the & a'), to_tsquery('fat <3> (the <-> rat)'), "
        "to_tsquery('!the'), to_tsquery('a & & b')",
        "select to_tsquery('fat rat')",
        "select to_tsquery('fat &')",
        "select to_tsquery('(fat')",
        "select 'a <16385> b'::tsquery",
        "select 'a & b | !c <-> d'::tsquery, 'a:b'::tsquery, '!a & !(b | c)'::tsquery, 'a <-> (b <-> "
        "c)'::tsquery, '''x y'':*A'::tsquery",
        "select websearch_to_tsquery('english', '\"supernovae stars\" -crab or \"the foo\" or bar'), "
        'websearch_to_tsquery(\'signal -"segmentation fault"\'), websearch_to_tsquery(\'""" )( dummy \\\\ '
        "query <->'), websearch_to_tsquery('or cat or'), websearch_to_tsquery('cat or'), "
        "websearch_to_tsquery('cat OR rat'), websearch_to_tsquery('fat-rat'), websearch_to_tsquery('fat "
        "or_rat')",
        "select to_tsvector('fat cats ate rats') @@ to_tsquery('cat & rat'), to_tsquery('cat <-> rat') "
        "@@ to_tsvector('fat cats ate rats'), 'fat cats' @@ 'cat', to_tsvector('fat cats ate rats') @@ "
        "'cat <2> rat'::tsquery, 'fat cats'::text @@ 'cat'::tsquery",
        "select to_tsvector('a b c') @@ websearch_to_tsquery('simple','\"b c\"'), strip(to_tsvector('cat "
        "dog')) @@ 'cat <-> dog'::tsquery, strip(to_tsvector('cat dog')) @@ 'cat & dog:A'::tsquery",
        "select setweight('a:1 b:2,3A'::tsvector,'B'), setweight('a:1 b:2'::tsvector, 'C', '{b,x}'), "
        "ts_delete('a:1 b:2'::tsvector,'a'), ts_delete('a:1 b:2 c'::tsvector,'{a,c}'::text[]), "
        "ts_filter('a:1A b:2 c:3C'::tsvector, '{a,c}'), strip('a:1 b'::tsvector), length('a "
        "b'::tsvector)",
        "select setweight('a:1'::tsvector,'x')",
        "select ts_rank_cd('a:1 b:2 c:9A', 'a & c'), ts_rank_cd('{0.1,0.2,0.3,1}', 'a:1 b:2B', 'a <-> b', 4|32)",
        "select ts_rank_cd('{0.1,0.2,0.3}', 'a:1', 'a')",
        "select ts_headline('fat cats ate rats', 'cat'), ts_headline('simple', 'a cat', 'cat', 'StartSel=[,StopSel=]')",
        "select ts_headline('', 'cat'), ts_headline('a b', ''), ts_headline('a b', 'a', 'Other=1')",
        'select ts_headline(\'english\', \'{"b": "the cats", "a": [1.50, null, true, "x cat"]}\'::json, \'cat\'), '
        'ts_headline(\'{"b": "the cats", "aa": [1.50, null, "x"]}\'::jsonb, \'cat\', \'HighlightAll=1\')',
        'select json_to_tsvector(\'english\', \'{"keys of": ["cats ran", 1.50, true, null, {"b": "c"}]}\', f) '
        "from (values ('\"all\"'::jsonb), ('[\"key\", \"Numeric\"]'), ('[]'), ('[\"boolean\"]')) v (f)",
        'select jsonb_to_tsvector(\'{"a": "cats ran", "b": 1.50}\'::jsonb, \'["string", "key"]\')',
        "select jsonb_to_tsvector('{}', '{\"a\": 1}')",
        "select jsonb_to_tsvector('{}', '[1]')",
        "select jsonb_to_tsvector('{}', '\"strings\"')",
        "select jsonb_to_tsvector('{}', 'null')",
        "select 'a:1 b:2'::tsvector || 'b:1A c:2'::tsvector, ''::tsvector || 'a:2', "
        "array_to_tsvector('{b,a,a}'), tsvector_to_array('a:1 b')",
        "select array_to_tsvector(array['a',null])",
        "select array_to_tsvector(array['a',''])",
        "select * from unnest('a:1A,2 b'::tsvector)",
        "select ts_rank(to_tsvector('a fat cat sat on a mat and ate a fat rat'), to_tsquery('fat & "
        "rat')), ts_rank('{0.1,0.2,0.3,0.4}', 'a:1A b:2 c:3B'::tsvector, 'a | b | x'), ts_rank('a:1A b:2"
        " c:3B'::tsvector, 'a & c', 1|2|8|16|32), ts_rank('a b'::tsvector,'a & b'), ts_rank('a:1,3,5,9C "
        "b:2,4'::tsvector,'a <-> b')",
        "select ts_rank('{0.1}', 'a'::tsvector, 'a')",
        "select numnode('a & !b'::tsquery), numnode(''), 'a'::tsquery && 'b', 'a'::tsquery || 'b & c', "
        "!!'a & b'::tsquery, 'a'::tsquery <-> 'b', tsquery_phrase('a','b',5), 'a'::tsquery && ''",
        "select 'a'::tsquery = 'a', 'a'::tsquery <> 'b', 'a:1'::tsvector < 'a:2', 'a'::tsvector = 'a', "
        "'a b'::tsvector > 'c'",
        "select v from (values ('a:1'::tsvector),('b'),('a b'),('a:2'),('aa'),('a:1A'),(''),('a:1,2')) x(v) order by v",
        "select ts_lexize('english_stem','stars'), ts_lexize('english_stem','the'), "
        "ts_lexize('simple','Foo'), get_current_ts_config(), 'english'::regconfig, "
        "'pg_catalog.french'::regconfig::oid",
        "select 'nope'::regconfig",
        "select to_tsvector('nope','x')",
        "select to_tsvector('french','les chevaux mangent'), to_tsvector('german','die Häuser sind "
        "grün'), to_tsvector('russian','красивые дома and houses'), to_tsvector('simple','The Cats')",
        "set default_text_search_config = 'simple'",
        "show default_text_search_config",
        "select to_tsvector('The Cats'), get_current_ts_config()",
        "set default_text_search_config = 'nope'",
        "reset default_text_search_config",
        "create table doc (id int primary key, body text, v tsvector, q tsquery)",
        "insert into doc select g, 'document number ' || g || ' about ' || case when g % 3 = 0 then "
        "'cats' when g % 3 = 1 then 'dogs and rats' else 'mice' end, null, case when g % 2 = 0 then "
        "'cat'::tsquery end from generate_series(1, 900) g",
        "update doc set v = to_tsvector('english', body)",
        "select count(*) from doc where v @@ to_tsquery('english','cat')",
        "select count(*) from doc where to_tsvector(body) @@ plainto_tsquery('dog rat')",
        "select id, v, q from doc where id < 4",
        "select id, ts_rank(v, q) from doc where v @@ q order by 2 desc, 1 limit 3",
        "select v, count(*) from doc where id in (1,2,3) group by v order by v",
        "select distinct q from doc",
        "create index on doc using gin (v)",
        "create index on doc using gin (to_tsvector('english', body))",
        "create index on doc using gist (v)",
        "create index on doc (v)",
        "select indexdef from pg_indexes where tablename = 'doc'",
        "alter table doc add column g tsvector generated always as (setweight(to_tsvector('english', "
        "coalesce(body,'')), 'A')) stored",
        "select g from doc where id = 3",
        "select count(*) from doc where g @@ 'cat:A'",
        "select pg_typeof(v), pg_typeof(q), v::text, q::text from doc where id = 2",
        "select * from ts_parse('default','foo bar-baz')",
        "select * from ts_token_type('default') limit 3",
        'select to_tsvector(\'english\', \'{"b": "cats dogs", "a": ["the", "mice", 1, {"k": "x y"}]}\'::jsonb)',
        'select to_tsvector(\'{"b": "cats dogs", "a": ["the", null, "mice"]}\'::json)',
        "select to_tsvector('1'::jsonb), to_tsvector('\"foo\"'::jsonb)",
        "select * from ts_token_type(3722::oid)",
        "select * from ts_parse(3722::oid, 'a b-c')",
        "select array_agg(v) from doc where id < 3",
        "select '{a,b}'::tsvector[]",
    )


def test_catalogs_of_text_search(both_paths: Pair) -> None:
    both_paths.same(
        "select cfgname, cfgparser, oid = cfgname::text::regconfig from pg_ts_config",
        "select dictname, dictinitoption, dicttemplate > 0 from pg_ts_dict where dictname in ('simple') "
        "or dictname like '%_stem'",
        "select * from pg_ts_config_map",
        "select prsname, prsstart::oid, prstoken::oid from pg_ts_parser",
        "select 'english'::regconfig, id::text from (select 1 as id) x",
        "select to_tsvector('english', 'x') is null, to_tsvector(null), null @@ 'a'::tsquery",
        "select 'a'::tsvector < 'b'::tsvector, 'a'::tsvector between 'a' and 'b'",
    )
