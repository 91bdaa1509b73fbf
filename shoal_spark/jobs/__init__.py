"""The jobs on Spark that `shoal pipeline` runs.

    import_job.py, export_job.py, copy_job.py, query_job.py     the jobs
    server_access.py      access to Shoal or PostgreSQL: connections whose secrets Spark redacts; tables, columns
    session.py            the Spark session of a job; work with progress, which an interrupt rolls back
    files.py              the files of a pattern, in any file system that Hadoop supports
    records.py            files of one format as the rows of a table
    column_conversion.py  converts the columns of a frame to those of a table
    step_writer.py        a staged commit that separates bad records, and records its input files
    rejects.py            finds the lines of bad records, with reasons
    definitions.py        copies a table's definition from one server to another
    summary.py            the summary of a job, as text and as JSON

A job reads its progress from Spark's stages and shows it as progress bars. However it ends, it removes everything
temporary: a stage of the server, a held snapshot, a table that it created, files. After a driver was killed, the
server's leases remove its part.
"""
