"""pg_catalog and information_schema: relations whose rows are computed from the catalog and the running node.

    parts         imports all of these, so that each registers its relations
    relations     the list of relations, from catalog/data; the internal ones of catalog functions
    content       parts, slices and scopes: how a relation's columns are computed and how long they are valid
    objects       pg_class, pg_attribute, pg_type, pg_index, pg_constraint, ...: the objects of a database
    partitions    pg_inherits, pg_partitioned_table
    shared        pg_namespace, pg_database, pg_authid, ...: schemas, and objects that all databases share
    collations    pg_collation
    statistics_objects  pg_statistic_ext
    user_types    pg_type, pg_enum, pg_constraint: user-defined types
    builtin       pg_proc, pg_operator, pg_cast, ...: the same in every server of this release
    extensions    pg_extension, and the rows of pg_proc, pg_type, ... of extensions
    routines      pg_proc: user-defined functions, and their definitions
    operators     user-defined operators
    triggers      pg_trigger, and the definitions of triggers
    live          pg_settings, pg_stat_activity, pg_locks, ...: the running node
    cluster       shoal_nodes, shoal_replicas, ...: the node's knowledge of its cluster
    names         the internal tables in which catalog functions find names, definitions and privileges
    definitions   the texts of definitions, and names in messages
    lookups       catalog functions as DuckDB SQL over all these
    object_search    finds the objects whose rows a look-up needs
    parameters    PostgreSQL's configuration parameters
    object_descriptions    pg_describe_object
    identities    pg_identify_object, pg_identify_object_as_address
    addresses     pg_get_object_address
    derived_oids  OIDs of objects without a stored OID

A relation without a part is empty, because Shoal has no such objects (publications, subscriptions, ...).
"""
