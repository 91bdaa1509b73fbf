"""The jobs on Spark that `shoal pipeline` runs.

    import_job.py, export_job.py, copy_job.py, query_job.py     the jobs
    server_access.py      access to Shoal or PostgreSQL: connections whose secrets Spark redacts; tables, columns
    session.py            the Spark session of a job; work with progress that an interrupt takes back
    files.py              the files of a pattern, in any file system that Hadoop knows
    records.py            files of one format as the rows of a table
    column_conversion.py  converts the columns of a frame to those of a table
    step_writer.py        a staged commit that puts bad records aside, and records its input files
    rejects.py            finds the lines of bad records again, with reasons
    definitions.py        a table's definition, copied from one server to another
    summary.py            the summary of a job, for people and for programs

A job takes its progress from Spark's stages and hands it to progress bars. It removes everything temporary when it
ends, in any way: a stage of the server, a snapshot that is held, a table that it made, files. After a driver was
killed, the server's leases remove its part.
"""
