"""Jobs on Spark that a command line runs whole: `shoal pipeline`.

    server.py       where Shoal is: a connection whose secrets go to Spark as options that it redacts; tables, columns
    session.py      the Spark session of a job; work that is watched, and taken back when somebody interrupts it
    files.py        what a pattern names in any file system that Hadoop knows
    fitting.py      columns of a frame as those of a table: conversions, and what is wrong with a value, in words
    stepping.py     a staged commit that puts bad records aside, and remembers which files it was
    rejects.py      the file of what was put aside: lines and reasons found
    definitions.py  a table's definition, from one server to another
    importing.py, exporting.py, copying.py, querying.py     the jobs
    summary.py      what a job has done, for people and for programs

A job takes its progress from Spark's stages and hands it to whatever shows bars. Everything that it leaves on the way
(a stage of the server, a moment that is held, a table that it made, temporary files) goes when it ends, however it
ends; what outlives a driver that was killed goes by the server's leases.
"""
