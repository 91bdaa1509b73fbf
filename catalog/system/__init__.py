"""pg_catalog and information_schema: relations whose rows are computed from the catalog and the running node.

    parts         imports all of these, so that each has registered what it has; the relations
    relations     the relations that there are, from catalog/data; the internal ones of catalog functions
    content       parts, slices and scopes: how a relation's columns come about and how long they are kept
    objects       pg_class, pg_attribute, pg_type, pg_index, pg_constraint, ...: the objects of a database
    partitions    pg_inherits, pg_partitioned_table
    shared        pg_namespace, pg_database, pg_authid, ...: schemas, and what all databases share
    collations    pg_collation
    user_types    pg_type, pg_enum, pg_constraint: the types that users define
    builtin       pg_proc, pg_operator, pg_cast, ...: what every server of this release has
    extensions    pg_extension, and the parts of pg_proc, pg_type, ... that extensions bring
    routines      pg_proc: functions that users define, and their definitions
    live          pg_settings, pg_stat_activity, pg_locks, ...: the running node
    cluster       shoal_nodes, shoal_replicas, ...: the cluster, as this node knows it
    names         the internal tables in which catalog functions find names, definitions and privileges
    definitions   the texts of definitions, and names as they are shown
    lookups       catalog functions as DuckDB SQL over all these
    object_search    which objects have the rows that a look-up wants
    parameters    PostgreSQL's configuration parameters
    object_descriptions    pg_describe_object
    identities    pg_identify_object, pg_identify_object_as_address
    addresses     pg_get_object_address
    derived_oids  OIDs of what has none of its own here

A relation without a part is empty: nothing of its kind exists here (triggers, publications, foreign tables, ...).
"""
